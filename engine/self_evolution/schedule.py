"""The whole run as a plan: which iteration has which budget, families, batch size and anchors.

Stages follow each other as the second paper's two do: multi-task evolution on several families,
then continued evolution on a new one with the budget raised again (§3.4, §3.5). What can't be met
is refused before anything is paid for, with the arithmetic.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.domains import Task
from engine.errors import ConfigError
from engine.params import EvolutionParams, EvolutionStage

ONE_FAMILY = "all"
"""Where a domain has no ``strata["family"]``, all of its tasks are one family."""


@dataclass(frozen=True)
class Iteration:
    """One iteration: it starts from H_{number-1} and the records of batch ``number``.

    ``budget`` is a_t in added lines; the batch takes ``per_family`` new tasks of each of
    ``families``, and ``anchors`` tasks that earlier stages solved. ``step`` counts from 0 within
    its stage of ``steps``.
    """

    number: int
    stage: int
    step: int
    steps: int
    budget: int
    families: tuple[str, ...]
    per_family: int
    anchors: int

    @property
    def size(self) -> int:
        """Tasks in its batch, where enough anchors were solved."""
        return self.per_family * len(self.families) + self.anchors


@dataclass(frozen=True)
class Schedule:
    """All iterations in order, and the tasks of each family held back for the gate."""

    iterations: tuple[Iteration, ...]
    held_back: int

    def __getitem__(self, number: int) -> Iteration:
        """Iteration ``number``, counted from 1."""
        return self.iterations[number - 1]

    def before(self, number: int) -> tuple[Iteration, ...]:
        """The iterations of the stages before that of iteration ``number``."""
        return tuple(i for i in self.iterations if i.stage < self[number].stage)

    @property
    def families(self) -> tuple[str, ...]:
        """Every family that a batch takes new tasks of, in order."""
        return tuple(dict.fromkeys(f for i in self.iterations for f in i.families))


def family_of(task: Task) -> str:
    """The family that a task is counted in."""
    return task.strata.get("family", ONE_FAMILY)


def cosine_budgets(iterations: int, highest: int, lowest: int) -> list[int]:
    """a_t = round(a_min + (a_max - a_min)/2 · (1 + cos(π t/(T-1)))), t = 0..T-1 (paper eq. 8).

    Raises ConfigError for T = 1, where the formula divides by zero.
    """
    if iterations < 2:
        raise ConfigError(
            f"evolution.stages: a budget that falls from {highest} to {lowest} lines over T = "
            f"{iterations} iteration divides by T-1 = {iterations - 1}; give the stage 2 or more"
        )
    half = (highest - lowest) / 2
    return [
        round(lowest + half * (1 + math.cos(math.pi * t / (iterations - 1))))
        for t in range(iterations)
    ]


def plan(params: EvolutionParams, known: Sequence[str]) -> Schedule:
    """The schedule over the families ``known`` in the training split. Raises ConfigError for a
    family that isn't there, for T = 1, and for anchors in the first stage."""
    iterations: list[Iteration] = []
    for number, stage in enumerate(params.stages, 1):
        families = _families(params, stage, known)
        budgets = cosine_budgets(stage.iterations, *stage.budget)
        if stage.anchors and number == 1:
            raise ConfigError(
                f"evolution.stages: the first stage asks for {stage.anchors} anchors, but no task "
                "is solved before it; give anchors to a later stage"
            )
        iterations += [
            Iteration(
                number=len(iterations) + step + 1,
                stage=number,
                step=step,
                steps=stage.iterations,
                budget=budget,
                families=families,
                per_family=stage.per_family,
                anchors=stage.anchors,
            )
            for step, budget in enumerate(budgets)
        ]
    return Schedule(tuple(iterations), params.gate.per_family if params.gate else 0)


def _families(
    params: EvolutionParams, stage: EvolutionStage, known: Sequence[str]
) -> tuple[str, ...]:
    """The stage's own, or all that no stage names."""
    named = [family for each in params.stages for family in each.families or ()]
    for family in named:
        if family not in known:
            near = difflib.get_close_matches(family, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known)}"
            raise ConfigError(
                f"evolution.stages: the training split has no family {family!r}; {hint}"
            )
    if stage.families is not None:
        return tuple(stage.families)
    left = tuple(family for family in known if family not in named)
    if not left:
        raise ConfigError("evolution.stages: a stage without families, and others name them all")
    return left


def require_tasks(schedule: Schedule, tasks: Sequence[Task]) -> None:
    """Raises ConfigError with the arithmetic where the training split can't fill the batches:
    every task is new once, so T·b of each family are needed, beside what the gate holds back."""
    counts = Counter(map(family_of, tasks))
    need = {family: _needed(schedule, family) for family in schedule.families}
    for family, (sum_, total) in need.items():
        if total > counts[family]:
            raise ConfigError(
                f"evolution: family {family!r} needs {sum_} = {total} training tasks, each new "
                f"once, and the training split has {counts[family]}; "
                f"{_mend(counts, need, len(tasks))}"
            )
    for iteration in schedule.iterations:
        old = sum(i.size - i.anchors for i in schedule.before(iteration.number))
        if iteration.anchors > old:
            raise ConfigError(
                f"evolution: iteration {iteration.number} asks for {iteration.anchors} anchors, "
                f"and the stages before it run {old} tasks; lower `anchors`"
            )


def _needed(schedule: Schedule, family: str) -> tuple[str, int]:
    """How many tasks a family must have, spelled out and summed."""
    runs: Counter[tuple[int, int]] = Counter()
    for iteration in schedule.iterations:
        if family in iteration.families:
            runs[iteration.stage, iteration.per_family] += 1
    parts = [f"{times} iterations x {size}" for (_, size), times in runs.items()]
    total = sum(size * times for (_, size), times in runs.items()) + schedule.held_back
    if schedule.held_back:
        parts.append(f"{schedule.held_back} held back for the gate")
    return " + ".join(parts), total


def _mend(counts: Mapping[str, int], need: Mapping[str, tuple[str, int]], split_size: int) -> str:
    shares = len(counts)
    most = max(total for _, total in need.values())
    return (
        f"with {shares} families in equal shares, splits.train must be {shares} x {most} = "
        f"{shares * most} (it is {split_size}), or lower per_family or iterations"
    )
