"""Splits from the real HomeBench files.

Training and validation tasks come from ``train_pool.jsonl``, test tasks from
``test_sample.jsonl``. Each split, and so any beginning of it, keeps the
subsets' shares of its file. Within a subset homes take
turns, because three homes hold two thirds of the pool and would else be nearly all of a split.
``is_pool.jsonl`` is left alone: infeasible single instructions are 38 % of the pool already.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.domains import Task
from engine.domains.reading import fault, lines, tolerating
from engine.domains.smart_home.homes import Home, parse_home
from engine.domains.smart_home.row import Row, make_task, parse_row
from engine.domains.smart_home.scoring import operations
from engine.domains.split import TaskSplits, apportion, checked_sizes, interleave
from engine.errors import DataError

HOMES = "home_status_method.jsonl"
POOL = "train_pool.jsonl"
TEST = "test_sample.jsonl"


@dataclass(frozen=True)
class KnownHome:
    """A parsed home and the line it was parsed from."""

    home: Home
    row: Mapping[str, Any]


def load(
    data: Path, seed: int, sizes: Mapping[str, int], *, skip_bad_rows: bool = False
) -> TaskSplits:
    """Disjoint splits by id and by content, the same for the same ``seed`` and sizes.

    Raises DataError for a missing file, a malformed row, an id used twice, or more tasks asked
    than there are; ConfigError for sizes that make no sense. With ``skip_bad_rows`` malformed rows
    are left out and listed in ``skipped``, and with a home the rows about it.
    """
    wanted = checked_sizes(sizes)
    if not data.is_dir():
        raise DataError(f"{data}: no such folder; it must hold {HOMES}, {POOL} and {TEST}")
    skipped: list[str] | None = [] if skip_bad_rows else None
    homes = read_homes(data / HOMES, skipped)
    test = read_rows(data / TEST, homes, skipped)
    pool = _teachable(read_rows(data / POOL, homes, skipped), test)
    order = _turns(pool, random.Random(f"pool {seed}"))
    validation = _take(order, wanted["validation"], data / POOL, "validation")
    held_out = {row.id for row in validation}
    rest = {key: [row for row in rows if row.id not in held_out] for key, rows in order.items()}
    train = _take(rest, wanted["train"], data / POOL, "train")
    tests = _take(_turns(test, random.Random(f"test {seed}")), wanted["test"], data / TEST, "test")
    return TaskSplits(
        train=_tasks(train, homes),
        validation=_tasks(validation, homes),
        test=_tasks(tests, homes),
        skipped=tuple(skipped or ()),
    )


def read_homes(path: Path, skipped: list[str] | None = None) -> dict[int, KnownHome]:
    """The homes of a file by their id; malformed ones go to ``skipped`` where there is one."""
    homes: dict[int, KnownHome] = {}
    for where, row in lines(path, skipped):
        with tolerating(skipped):
            home = parse_home(row, where)
            if home.home_id in homes:
                raise fault(where, "home_id", "an id not used before in this file", home.home_id)
            homes[home.home_id] = KnownHome(home, row)
    return homes


def read_rows(
    path: Path, homes: Mapping[int, KnownHome], skipped: list[str] | None = None
) -> list[Row]:
    """The labelled rows of a file, each of a known home; malformed ones go to ``skipped`` where
    there is one."""
    rows: dict[str, Row] = {}
    for where, fields in lines(path, skipped):
        with tolerating(skipped):
            row = parse_row(fields, where)
            if row.home_id not in homes:
                raise fault(where, "home_id", f"a home of {HOMES}", row.home_id)
            if row.id in rows:
                raise fault(where, "id", "an id not used before in this file", row.id)
            rows[row.id] = row
    return list(rows.values())


def _teachable(pool: Sequence[Row], test: Sequence[Row]) -> list[Row]:
    """The pool without test rows, with each problem once, without those answered in two ways."""
    barred_ids = {row.id for row in test}
    barred = {row.content for row in test}
    answers: dict[str, set[tuple[tuple[str, int], ...]]] = defaultdict(set)
    for row in pool:
        counted = Counter(operations(row.gold, gold=True))
        answers[row.content].add(tuple(sorted(counted.items())))
    kept: dict[str, Row] = {}
    for row in pool:
        known = row.id in barred_ids or row.content in barred
        if not known and len(answers[row.content]) == 1:
            kept.setdefault(row.content, row)
    return list(kept.values())


def _turns(rows: Sequence[Row], rng: random.Random) -> dict[str, list[Row]]:
    """Per subset its rows in the order of drawing: homes take turns, all else is shuffled."""
    queues: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rng.sample(list(rows), len(rows)):
        queues[row.subset][row.home_id].append(row)
    order = {}
    for subset in sorted(queues):
        ranked = [
            (turn, place, row)
            for place, queue in enumerate(queues[subset].values())
            for turn, row in enumerate(queue)
        ]
        order[subset] = [row for _, _, row in sorted(ranked, key=lambda each: each[:2])]
    return order


def _take(order: Mapping[str, Sequence[Row]], size: int, path: Path, split: str) -> list[Row]:
    available = sum(map(len, order.values()))
    if size > available:
        raise DataError(
            f"{path}: {split}: {size} tasks asked, {available} there are; lower sizes.{split}"
        )
    if not size:
        return []
    counts = apportion(size, {key: len(rows) for key, rows in order.items()})
    return interleave({key: rows[: counts[key]] for key, rows in order.items()})


def _tasks(rows: Sequence[Row], homes: Mapping[int, KnownHome]) -> tuple[Task, ...]:
    return tuple(make_task(row, homes[row.home_id].home, homes[row.home_id].row) for row in rows)
