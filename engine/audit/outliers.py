"""Scores that are unusually high or low against a task's or a family's other executions.

Two rules. Task: with at least five executions of the task elsewhere in the archive, a score that
differs from their median by more than half a point where none of them did so in that direction.
Family: with at least eight other executions of the family in the same measurement, a score more
than three standard deviations (0.1 at least) from their mean.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from engine.audit.rules import Finding

_TASK_LEAST, _TASK_GAP = 5, 0.5
_FAMILY_LEAST, _FAMILY_GAP, _SPREAD = 8, 3.0, 0.1


def of_task(score: float, others: Sequence[float]) -> Iterator[Finding]:
    """``others`` are the scores of the task's other executions."""
    if len(others) < _TASK_LEAST:
        return
    middle = statistics.median(others)
    way = _way(score - middle, _TASK_GAP)
    if way and not any(_way(other - middle, _TASK_GAP) == way for other in others):
        yield Finding(
            f"score-{way}",
            0,
            f"scored {score:.2f} where {len(others)} other executions of the task have the median "
            f"{middle:.2f}",
        )


def of_family(score: float, others: Sequence[float], family: str) -> Iterator[Finding]:
    """``others`` are the scores of the family's other executions in the same measurement."""
    if len(others) < _FAMILY_LEAST:
        return
    mean, spread = statistics.fmean(others), max(statistics.pstdev(others), _SPREAD)
    if way := _way(score - mean, _FAMILY_GAP * spread):
        yield Finding(
            f"score-{way}",
            0,
            f"scored {score:.2f} where the {len(others)} others of family {family} have the mean "
            f"{mean:.2f}",
        )


def _way(gap: float, least: float) -> str:
    return "" if abs(gap) <= least else "high" if gap > 0 else "low"


def without(scores: Mapping[str, Sequence[float]], name: str, index: int) -> list[float]:
    """A task's scores but for one execution."""
    return [score for place, score in enumerate(scores[name]) if place != index]
