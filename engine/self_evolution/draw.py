"""From a run to the tasks of one of its batches, with the anchors that its archive names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from engine.domains import Task
from engine.errors import ConfigError
from engine.evaluation.keys import opaque_id
from engine.self_evolution import anchors
from engine.self_evolution.batches import GATE, batch_name, batch_number, gate_tasks, new_tasks
from engine.self_evolution.schedule import Schedule, family_of, plan, require_tasks

if TYPE_CHECKING:
    from engine.context import Context
    from engine.records import Outcome


def schedule(context: Context) -> Schedule:
    """The run's schedule, over the families of its frozen training split."""
    return plan(context.params.evolution, families_of(context.tasks("train")))


def families_of(tasks: Sequence[Task]) -> list[str]:
    """Families in the order in which they first appear."""
    return list(dict.fromkeys(map(family_of, tasks)))


def is_part(split: str) -> bool:
    """Whether ``split`` is drawn from the training split: a batch, or the gate's."""
    return split == GATE or batch_number(split) is not None


def part(context: Context, split: str) -> tuple[Task, ...]:
    """The tasks of a batch (new ones, then anchors) or of the gate."""
    planned, tasks, seed = schedule(context), context.tasks("train"), context.params.seed
    number = batch_number(split)
    if number is None:
        return gate_tasks(planned, tasks, seed)
    if number > len(planned.iterations):
        raise ConfigError(f"{split}: the schedule has {len(planned.iterations)} batches")
    return (*new_tasks(planned, tasks, number, seed), *anchor_tasks(context, planned, number))


def anchor_tasks(context: Context, planned: Schedule, number: int) -> tuple[Task, ...]:
    """The anchors of batch ``number``: from the tasks of earlier stages that the harness which held
    the title solved in full."""
    iteration = planned[number]
    if not iteration.anchors:
        return ()
    tasks, seed = context.tasks("train"), context.params.seed
    secret = context.split("train").salt
    solved: dict[str, list[Task]] = {}
    for before in planned.before(number):
        known = _solved(context, before.number)
        for task in new_tasks(planned, tasks, before.number, seed):
            own = solved.setdefault(family_of(task), [])
            if opaque_id(secret, task) in known:
                own.append(task)
    return anchors.choose(solved, iteration.anchors, iteration.step, str(seed))


def apart(context: Context, outcome: Outcome) -> Outcome:
    """The outcome of a batch with its new tasks and its anchors reported apart, as metrics ``new``
    and ``anchors``; any other outcome as it is."""
    number = batch_number(outcome.split)
    if number is None or not (old := anchor_ids(context, number)):
        return outcome
    secret = context.split("train").salt
    tasks = context.tasks(outcome.split)
    scores = {
        name: fmean(
            fmean(outcome.by_task[opaque_id(secret, task)])
            for task in tasks
            if (task.id in old) == is_anchor
        )
        for name, is_anchor in (("new", False), ("anchors", True))
    }
    return replace(outcome, metrics={**outcome.metrics, **scores})


def anchor_ids(context: Context, number: int) -> frozenset[str]:
    """The ids of the anchors in batch ``number``."""
    return frozenset(task.id for task in anchor_tasks(context, schedule(context), number))


def require_schedule(context: Context, train: Sequence[Task]) -> None:
    """Before anything is paid for, and again at each round: raises ConfigError with the arithmetic
    where ``train`` can't fill the batches, and where a batch that was measured isn't the one that
    is drawn now (``evolution.stages`` or ``seed`` changed, so that batches could share tasks)."""
    planned = plan(context.params.evolution, families_of(train))
    require_tasks(planned, train)
    for done in context.archive.rounds():
        outcome = context.recorded(done.incumbent)
        if batch_number(outcome.split) is not None:
            _require_drawn(context, done.round, outcome)


def _require_drawn(context: Context, round_number: int, outcome: Outcome) -> None:
    secret, run = context.split("train").salt, context.params.run
    drawn = {opaque_id(secret, task) for task in context.tasks(outcome.split)}
    if drawn != set(outcome.by_task):
        raise ConfigError(
            f"params.yaml: evolution.stages or seed changed: {outcome.split} as drawn now has "
            f"{len(drawn - set(outcome.by_task))} tasks that round {round_number} did not run; "
            f"restore what `git show {run}/evolution:params.yaml` has (stages may be added at the "
            "end), or start another run"
        )


def _solved(context: Context, number: int) -> set[str]:
    """The opaque ids of batch ``number`` that the title holder scored 1 on, each time it ran."""
    outcome = context.recorded(context.archive.round(f"r{number - 1:03d}").incumbent)
    if outcome.split != batch_name(number):
        return set()
    return {task for task, scores in outcome.by_task.items() if min(scores) >= 1}
