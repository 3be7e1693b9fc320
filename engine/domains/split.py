"""Splits of tasks and how many of a kind each gets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.domains import Task
from engine.errors import ConfigError

SPLITS = ("train", "validation", "test")

Key = TypeVar("Key", bound=str)
Item = TypeVar("Item")


@dataclass(frozen=True)
class TaskSplits:
    """The three task sets of a run. ``skipped`` has a line for each malformed row that is missing
    in them, ``left_out`` one for each sound row that a filter of the domain dropped."""

    train: Sequence[Task] = ()
    validation: Sequence[Task] = ()
    test: Sequence[Task] = ()
    skipped: Sequence[str] = ()
    left_out: Sequence[str] = ()


def checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """``sizes`` with every split named. Raises ConfigError for unknown splits or bad counts."""
    for name, size in sizes.items():
        if name not in SPLITS:
            raise ConfigError(f"sizes: no split is called {name!r}; known: {', '.join(SPLITS)}")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigError(f"sizes.{name}: expected a count of tasks >= 0, got {size!r}")
    return {name: sizes.get(name, 0) for name in SPLITS}


def apportion(total: int, shares: Mapping[Key, float]) -> dict[Key, int]:
    """``total`` divided as ``shares`` are, by largest remainder; ties go to the first named."""
    whole = math.fsum(shares.values())
    exact = {key: total * share / whole for key, share in shares.items()}
    counts = {key: math.floor(value) for key, value in exact.items()}
    by_remainder = sorted(exact, key=lambda key: counts[key] - exact[key])
    for key in by_remainder[: total - sum(counts.values())]:
        counts[key] += 1
    return counts


def interleave(groups: Mapping[str, Sequence[Item]]) -> list[Item]:
    """The items of all groups, each group spread evenly and in its own order.

    In the first n of the result a group has its share of n within one item for each group, so
    that any prefix stands for the whole.
    """
    placed = [
        ((index + 0.5) / len(items), place, item)
        for place, items in enumerate(groups.values())
        for index, item in enumerate(items)
    ]
    return [item for _, _, item in sorted(placed, key=lambda each: each[:2])]
