"""B_t: new tasks for each iteration, drawn without replacement, b of each family (§3.4, eq. 6)."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from engine.domains import Task
from engine.self_evolution.schedule import Schedule, family_of

GATE = "gate"
"""The minibatch held back from every batch, for the gate."""

_NAME = re.compile(r"batch-(\d{3,})")


def batch_name(number: int) -> str:
    """Batch ``number`` (from 1) as a split of its own: ``batch-001``."""
    return f"batch-{number:03d}"


def batch_number(split: str) -> int | None:
    """The number in a batch's name; None for any other split."""
    found = _NAME.fullmatch(split)
    return int(found[1]) if found else None


def new_tasks(
    schedule: Schedule, tasks: Sequence[Task], number: int, seed: int
) -> tuple[Task, ...]:
    """The new tasks of batch ``number``, family by family. Each family is put in a seeded order
    once and cut into slices, so that no task stands in two batches or in the gate's."""
    chosen: list[Task] = []
    for family in schedule[number].families:
        order = _ordered(tasks, family, seed)
        start = schedule.held_back + sum(
            before.per_family
            for before in schedule.iterations[: number - 1]
            if family in before.families
        )
        chosen += order[start : start + schedule[number].per_family]
    return tuple(chosen)


def gate_tasks(schedule: Schedule, tasks: Sequence[Task], seed: int) -> tuple[Task, ...]:
    """The minibatch that is in no batch: ``held_back`` tasks of each family."""
    return tuple(
        task
        for family in schedule.families
        for task in _ordered(tasks, family, seed)[: schedule.held_back]
    )


def _ordered(tasks: Sequence[Task], family: str, seed: int) -> list[Task]:
    own = [task for task in tasks if family_of(task) == family]
    random.Random(f"{seed}/batches/{family}").shuffle(own)
    return own
