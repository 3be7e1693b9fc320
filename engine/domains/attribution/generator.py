"""Endless failed logs with one decisive error of a known agent, so that the domain needs no files.

Everything is drawn from a secret salt, so that the public code gives nobody the answers. Every
question is given to one split by a keyed hash.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from engine.domains import Task
from engine.domains.attribution.course import DECISIVE, MENDABLE, MENDED, Course, Manner, Slot
from engine.domains.attribution.puzzle import Cast, Puzzle, draw_cast, draw_puzzle
from engine.domains.attribution.trace import Step, Trace, make_task
from engine.domains.split import SPLITS, TaskSplits, checked_sizes
from engine.errors import ConfigError

Lengths = tuple[int, int]
SHORT: Lengths = (5, 12)
"""Steps of a log that a small model can read within a context of 2,048 tokens."""
LONG: Lengths = (5, 130)
LIMITS: Lengths = (5, 130)
SOURCE = "generated"

_SHARES = {"train": 3, "validation": 1, "test": 1}
"""How many questions of five belong to each split."""
_WEIGHTS = {"plan": 1.0, "read": 1.5, "compute": 2.0, "relay": 1.0, "check": 1.5, "report": 1.0}
"""How often the decisive error is of each kind, where a log has the kind."""


@dataclass(frozen=True)
class Secret:
    """The salt and seed of a run: they key every draw."""

    salt: str
    seed: int

    def number(self, *parts: object) -> int:
        """A number that only who has the salt can tell."""
        message = json.dumps([self.seed, *parts]).encode()
        return int.from_bytes(hmac.digest(self.salt.encode(), message, hashlib.sha256)[:8])

    def split(self, group: str) -> str:
        """The split that a question belongs to."""
        places = [name for name in SPLITS for _ in range(_SHARES[name])]
        return places[self.number("owner", group) % len(places)]


def generate(
    salt: str, seed: int, sizes: Mapping[str, int], lengths: Lengths = SHORT
) -> TaskSplits:
    """Splits for (salt, seed), disjoint by id and by question; a larger split begins with a
    smaller one. ``lengths`` are the fewest and most steps of a log, within ``LIMITS``.

    Raises ConfigError for an empty salt, and for sizes or lengths that make no sense.
    """
    if not salt:
        raise ConfigError("salt: generated splits need a secret that is not empty")
    if not LIMITS[0] <= lengths[0] <= lengths[1] <= LIMITS[1]:
        raise ConfigError(f"lengths: expected two numbers within {LIMITS}, got {lengths}")
    secret, wanted = Secret(salt, seed), checked_sizes(sizes)
    parts = {split: _part(secret, split, size, lengths) for split, size in wanted.items()}
    return TaskSplits(parts["train"], parts["validation"], parts["test"])


def _part(secret: Secret, split: str, size: int, lengths: Lengths) -> tuple[Task, ...]:
    tasks: list[Task] = []
    asked: set[str] = set()
    number = 0
    while len(tasks) < size:
        rng = random.Random(secret.number("log", split, number))
        trace = draw(rng, lengths, f"log_{secret.number('id', split, number):016x}"[:14])
        number += 1
        if trace.group not in asked and secret.split(trace.group) == split:
            asked.add(trace.group)
            tasks.append(make_task(trace))
    return tuple(tasks)


def draw(rng: random.Random, lengths: Lengths, key: str) -> Trace:
    """One failed log, its length drawn evenly on a logarithmic scale."""
    low, high = (math.log(end) for end in lengths)
    aim = round(math.exp(rng.uniform(low, high)))
    while True:
        puzzle, cast, manner = _setting(rng, aim)
        course, decisive = _failed(rng, puzzle, cast, manner)
        length = len(course.said)
        near = abs(length - aim) <= max(1, aim // 8)
        if near and lengths[0] <= length <= lengths[1] and course.reported != puzzle.answer:
            return _trace(key, puzzle, course, decisive)


def _setting(rng: random.Random, aim: int) -> tuple[Puzzle, Cast, Manner]:
    """A question, a team and its manner that come to about ``aim`` steps."""
    manner = Manner(
        talk=rng.uniform(0.2, 0.9),
        check=rng.uniform(0.2, 0.8),
        batch=rng.randint(1, 4) if aim > 12 else rng.randint(2, 4),
        doubt=rng.random() < 0.3,
    )
    cost = 1 + 2.5 * manner.talk / 1.5 + manner.check + (2 + manner.talk) / manner.batch
    goods = round((aim - 3) / cost) + rng.randint(0, 1)
    return draw_puzzle(rng, min(max(goods, 2), 44)), draw_cast(rng), manner


def _failed(rng: random.Random, puzzle: Puzzle, cast: Cast, manner: Manner) -> tuple[Course, Slot]:
    """A course with one decisive error and, now and then, others that are mended."""
    seed = rng.getrandbits(32)
    slots = Course(puzzle, cast, manner, seed, {}).slots
    by_kind: dict[str, list[int]] = defaultdict(list)
    for place, slot in enumerate(slots):
        by_kind[slot.kind].append(place)
    kinds = sorted(by_kind)
    kind = rng.choices(kinds, [_WEIGHTS[each] for each in kinds])[0]
    decisive = rng.choice(by_kind[kind])
    others = [p for each in MENDABLE for p in by_kind[each] if p != decisive]
    most = 1 + len(slots) // 12
    mended = rng.sample(others, min(len(others), rng.randint(0, most)))
    faults = {**dict.fromkeys(mended, MENDED), decisive: DECISIVE}
    course = Course(puzzle, cast, manner, seed, faults)
    return course, course.slots[decisive]


def _trace(key: str, puzzle: Puzzle, course: Course, decisive: Slot) -> Trace:
    steps = tuple(Step(number, agent, text) for number, (agent, text) in enumerate(course.said))
    agent = steps[decisive.step].agent
    return Trace(key, SOURCE, puzzle.question, steps, agent, decisive.step)
