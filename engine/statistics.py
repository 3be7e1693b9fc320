"""Intervals for differences between two pairs on the same tasks."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """The mean of b - a over tasks, with a percentile bootstrap interval over tasks."""

    mean: float
    low: float
    high: float
    level: float

    @property
    def certain(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(
    a: Sequence[float], b: Sequence[float], *, level: float = 0.95, draws: int = 4000, seed: int = 0
) -> Difference:
    """Paired bootstrap: tasks are drawn with replacement, both pairs' scores together.

    Raises ValueError where the two have no tasks, or not the same number of them.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"paired scores are needed: {len(a)} and {len(b)} tasks")
    deltas = [y - x for x, y in zip(a, b, strict=True)]
    count = len(deltas)
    draw = random.Random(seed)
    means = sorted(sum(draw.choices(deltas, k=count)) / count for _ in range(draws))
    tail = (1 - level) / 2
    low, high = means[int(tail * (draws - 1))], means[int((1 - tail) * (draws - 1))]
    return Difference(sum(deltas) / count, low, high, level)


@dataclass(frozen=True)
class Average:
    """A mean over groups with equal weight, with a percentile bootstrap interval over tasks."""

    mean: float
    low: float
    high: float
    level: float


def group_average(
    groups: Mapping[str, Sequence[float]], *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> Average:
    """The mean of the groups' means, whatever their sizes; tasks are drawn with replacement within
    their group. For a difference give each task's difference. Raises ValueError where a group is
    empty or there is none."""
    if not groups or not all(groups.values()):
        raise ValueError("every group needs a score")
    draw = random.Random(seed)

    def mean(sets: Iterable[Sequence[float]]) -> float:
        means = [sum(scores) / len(scores) for scores in sets]
        return sum(means) / len(means)

    drawn = sorted(
        mean(draw.choices(scores, k=len(scores)) for scores in groups.values())
        for _ in range(draws)
    )
    tail = (1 - level) / 2
    low, high = drawn[int(tail * (draws - 1))], drawn[int((1 - tail) * (draws - 1))]
    return Average(mean(groups.values()), low, high, level)
