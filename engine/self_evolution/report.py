"""What frozen versions did on a split, family by family (second paper §4, Figures 3 and 5)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from engine.domains import Task
from engine.records import Rollout
from engine.self_evolution.mechanisms import MECHANISMS, triggered
from engine.self_evolution.schedule import family_of
from engine.statistics import Average, group_average

OVERFLOW = "context_overflow"


@dataclass(frozen=True)
class FamilyFigures:
    """One family's tasks: mean score over tasks and executions, with an interval over tasks; how
    rollouts ended, and the share of rollouts that triggered each mechanism."""

    family: str
    ood: bool
    tasks: int
    executions: int
    score: Average
    ends: Mapping[str, int]
    mechanisms: Mapping[str, float]

    @property
    def overflow(self) -> float:
        """The share of rollouts that were aborted by a full context."""
        return self.ends.get(OVERFLOW, 0) / max(sum(self.ends.values()), 1)


@dataclass(frozen=True)
class Report:
    """All families of a version; averages weigh families equally, None where there is no such
    family."""

    families: tuple[FamilyFigures, ...]
    in_distribution: Average | None
    out_of_distribution: Average | None
    overall: Average


def is_ood(task: Task) -> bool:
    """Whether a task's family is kept out of evolution."""
    return task.strata.get("ood") == "yes"


def report(rollouts: Sequence[Rollout]) -> Report:
    """Raises ValueError where there is no rollout."""
    by_family: dict[str, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        by_family[family_of(rollout.task)].append(rollout)
    rows = sorted((_family(name, own) for name, own in by_family.items()), key=lambda r: r.ood)
    scores = {name: list(task_scores(own).values()) for name, own in by_family.items()}

    def average(ood: bool) -> Average | None:
        wanted = {row.family: scores[row.family] for row in rows if row.ood is ood}
        return group_average(wanted) if wanted else None

    return Report(tuple(rows), average(False), average(True), group_average(scores))


def task_scores(rollouts: Sequence[Rollout]) -> Mapping[str, float]:
    """Each task's mean over its executions, by opaque id."""
    found: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        found[rollout.opaque_id].append(rollout.verdict.score)
    return {name: fmean(scores) for name, scores in found.items()}


def _family(name: str, rollouts: Sequence[Rollout]) -> FamilyFigures:
    scores = task_scores(rollouts)
    seen = Counter(m for rollout in rollouts for m in triggered(rollout.trajectory))
    return FamilyFigures(
        family=name,
        ood=is_ood(rollouts[0].task),
        tasks=len(scores),
        executions=len(rollouts) // len(scores),
        score=group_average({name: list(scores.values())}),
        ends=dict(Counter(rollout.trajectory.end for rollout in rollouts).most_common()),
        mechanisms={each: seen[each] / len(rollouts) for each in MECHANISMS},
    )


def gain(before: Sequence[Rollout], after: Sequence[Rollout], ood: bool) -> Average | None:
    """The paired difference of two versions on the same tasks, families weighing equally; None
    where no such family is there."""
    old, new = task_scores(before), task_scores(after)
    families = {r.opaque_id: family_of(r.task) for r in after if is_ood(r.task) is ood}
    deltas: dict[str, list[float]] = defaultdict(list)
    for name, family in families.items():
        deltas[family].append(new[name] - old[name])
    return group_average(deltas) if deltas else None
