"""Endless homes and instructions in HomeBench's format.

A split is a stream of its own, drawn from a secret salt, so that the public code gives nobody the
answers, and a split stays the same whatever the sizes of the others. A keyed hash gives every home
and every wording to one split, so no home and no instruction stands in two. Any beginning of
a split has about the subsets' shares of the whole.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from engine.domains import Task
from engine.domains.smart_home import loader
from engine.domains.smart_home.homes import Home, fingerprint, parse_home
from engine.domains.smart_home.household import draw_home
from engine.domains.smart_home.request import MISSING, VALID_FORMS, Request, feasible, infeasible
from engine.domains.smart_home.row import Row, make_task, normalised
from engine.domains.smart_home.scoring import ERROR
from engine.domains.split import SPLITS, TaskSplits, apportion, checked_sizes, interleave
from engine.errors import ConfigError

MIX = {"VS": 60, "IS": 22, "VM": 8, "IM": 3, "MM": 7}
"""Subsets in percent: easier than the real data, for a small model."""

MULTI_SIZES = (2, 2, 3)
"""Sizes of multi-operation instructions, drawn evenly."""

TASKS_PER_HOME = 4

ATTEMPTS = 30
"""Draws for one more request before the instruction is given up."""


class Labelled(NamedTuple):
    """A row, its home, and the home as a line of its file."""

    row: Row
    home: Home
    home_row: dict[str, Any]


@dataclass(frozen=True)
class Secret:
    """The salt and seed of a run: they key every draw."""

    salt: str
    seed: int

    def number(self, *parts: object) -> int:
        """A number that only who has the salt can tell."""
        message = json.dumps([self.seed, *parts]).encode()
        return int.from_bytes(hmac.digest(self.salt.encode(), message, hashlib.sha256)[:8])

    def owner(self, what: str, text: str) -> str:
        """The one split that a home or a wording belongs to: half of them to training."""
        quarter = self.number("owner", what, text) % 4
        return SPLITS[max(quarter - 1, 0)]


def generate(salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
    """Splits for (salt, seed), disjoint by id, by home and by instruction.

    Raises ConfigError for an empty salt or sizes that make no sense.
    """
    secret = Secret(_checked(salt), seed)
    tasks = {s: _tasks(_split(secret, s, size)) for s, size in checked_sizes(sizes).items()}
    return TaskSplits(train=tasks["train"], validation=tasks["validation"], test=tasks["test"])


def write(folder: Path, salt: str, seed: int, sizes: Mapping[str, int]) -> None:
    """The same tasks as files that ``loader.load`` reads: homes, pool and test rows."""
    secret = Secret(_checked(salt), seed)
    wanted = checked_sizes(sizes)
    splits = {split: _split(secret, split, size) for split, size in wanted.items()}
    everything = [each for labelled in splits.values() for each in labelled]
    homes = {each.home.home_id: each.home_row for each in everything}
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / loader.HOMES, list(homes.values()))
    _write(folder / loader.POOL, [_fields(e.row) for e in splits["train"] + splits["validation"]])
    _write(folder / loader.TEST, [_fields(each.row) for each in splits["test"]])


def _checked(salt: str) -> str:
    if not salt:
        raise ConfigError("salt: generated splits need a secret that is not empty")
    return salt


def _split(secret: Secret, split: str, size: int) -> list[Labelled]:
    rng = random.Random(secret.number("split", split))
    counts = apportion(size, MIX)
    subsets = [subset for subset, count in counts.items() for _ in range(count)]
    rng.shuffle(subsets)
    homes = _homes(secret, split, rng)
    labelled: list[Labelled] = []
    for start in range(0, size, TASKS_PER_HOME):
        home, home_row = next(homes)
        seen: set[str] = set()
        for subset in subsets[start : start + TASKS_PER_HOME]:
            row = _row(secret, split, rng, home, subset, seen)
            seen.add(normalised(row.instruction))
            labelled.append(Labelled(row, home, home_row))
    order = {subset: [each for each in labelled if each.row.subset == subset] for subset in MIX}
    return interleave(order)


def _homes(secret: Secret, split: str, rng: random.Random) -> Iterator[tuple[Home, dict[str, Any]]]:
    """The homes that belong to a split; the ids of three splits interleave."""
    home_id = SPLITS.index(split)
    while True:
        row = draw_home(rng, home_id)
        if secret.owner("home", fingerprint(row)) == split:
            yield parse_home(row, f"generated home {home_id}"), row
            home_id += len(SPLITS)


def _row(
    secret: Secret, split: str, rng: random.Random, home: Home, subset: str, seen: set[str]
) -> Row:
    while True:
        requests, type_name = _requests(rng, home, subset)
        instruction = _joined([request.wording for request in requests])
        text = normalised(instruction)
        if requests and text not in seen and secret.owner("instruction", text) == split:
            break
    multi = len(requests) > 1
    mark = f"{secret.number('id', split, home.home_id, text):016x}"[:10]
    kind = "multi" if multi else "one"
    return Row(
        id=f"home{home.home_id}_{kind}_{mark}",
        instruction=instruction,
        gold=_gold([request.command for request in requests]),
        home_id=home.home_id,
        type=f"multi{len(requests)}_{type_name}" if multi else type_name,
    )


def _requests(rng: random.Random, home: Home, subset: str) -> tuple[list[Request], str]:
    """Requests of a subset about different things, and what the data set calls the kind.

    There are none where the home has too little to ask for: draw again.
    """
    size = 1 if subset in ("VS", "IS") else rng.choice(MULTI_SIZES)
    bad = {"VS": 0, "VM": 0, "IS": size, "IM": size}.get(subset)
    if bad is None:
        bad = rng.randint(1, size - 1)
    reason = _weighted(rng, MISSING)
    found: dict[str, Request] = {}
    for wanted in [""] * (size - bad) + [reason] * bad:
        request = _another(rng, home, wanted, found)
        if request is None:
            return [], ""
        found[request.about] = request
    requests = list(found.values())
    rng.shuffle(requests)
    return requests, reason if bad == size else "mix" if bad else "normal"


def _another(
    rng: random.Random, home: Home, reason: str, found: Mapping[str, Request]
) -> Request | None:
    """A request about something new: feasible, or infeasible for ``reason``."""
    for _ in range(ATTEMPTS):
        if reason:
            request = infeasible(rng, home, reason)
        else:
            request = feasible(rng, home, _weighted(rng, VALID_FORMS))
        if request is not None and request.about not in found:
            return request
    return None


def _weighted(rng: random.Random, shares: Mapping[str, int]) -> str:
    return rng.choices(list(shares), weights=list(shares.values()))[0]


def _joined(wordings: Sequence[str]) -> str:
    if not wordings:
        return ""
    first, *others = wordings
    lowered = [first, *(each[0].lower() + each[1:] for each in others)]
    if len(lowered) == 1:
        return f"{first}."
    comma = "," if len(lowered) > 2 else ""
    return f"{', '.join(lowered[:-1])}{comma} and {lowered[-1]}."


def _gold(commands: Sequence[str]) -> str:
    """Spelled as the data set does: a space before a single command, a comma after each of many."""
    if len(commands) > 1:
        return f"'''{','.join(commands)},'''"
    return f"'''{ERROR}'''" if commands[0] == ERROR else f"''' {commands[0]}'''"


def _tasks(labelled: Sequence[Labelled]) -> tuple[Task, ...]:
    return tuple(make_task(row, home, home_row) for row, home, home_row in labelled)


def _fields(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "input": row.instruction,
        "output": row.gold,
        "home_id": row.home_id,
        "type": row.type,
    }


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
