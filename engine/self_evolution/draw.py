"""From a run to the tasks of one of its batches, with the anchors that its archive names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.domains import Task
from engine.errors import ConfigError
from engine.evaluation.keys import opaque_id
from engine.self_evolution import anchors
from engine.self_evolution.batches import GATE, batch_name, batch_number, gate_tasks, new_tasks
from engine.self_evolution.schedule import Schedule, family_of, plan

if TYPE_CHECKING:
    from engine.context import Context


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


def _solved(context: Context, number: int) -> set[str]:
    """The opaque ids of batch ``number`` that the title holder scored 1 on, each time it ran."""
    outcome = context.outcome(context.archive.round(f"r{number - 1:03d}").incumbent)
    if outcome.split != batch_name(number):
        return set()
    return {task for task, scores in outcome.by_task.items() if min(scores) >= 1}
