"""One harness on one task: what ``git bisect run`` asks of each commit of a lineage."""

from __future__ import annotations

from typing import NamedTuple

from engine.audit.standing import as_they_count, confirmed
from engine.context import Context
from engine.domains import Task
from engine.errors import DataError
from engine.evaluation.keys import opaque_id
from engine.evaluation.scheduler import Job
from engine.records import Rollout
from engine.self_evolution import draw
from engine.self_evolution.batches import batch_name


class Found(NamedTuple):
    """A task and the split whose journal may know its rollouts."""

    task: Task
    split: str


async def solve(context: Context, harness: str, checkpoint: str, name: str) -> Rollout:
    """The rollout, from the journal where it was run before; one that an audit confirmed scores 0.
    Raises DataError for a task that the run doesn't have."""
    found = find_task(context, name)
    job = Job(context.agent(harness, checkpoint), found.task)
    async with context.scheduler() as scheduler:
        rollouts = await scheduler.many([job], context.setting(found.split), name)
    [rollout] = as_they_count(context, rollouts, confirmed(context))
    return rollout


def find_task(context: Context, name: str) -> Found:
    """By opaque id (4 characters or more), or by a trial's folder (``files-3f2a...``)."""
    wanted, secret = name.rpartition("-")[2], context.split("train").salt
    for split in _splits(context):
        tasks = context.tasks(split)
        own = [task for task in tasks if opaque_id(secret, task).startswith(wanted)]
        if len(own) == 1 and len(wanted) >= 4:
            return Found(own[0], split)
    raise DataError(
        f"no one task is called {name!r}; `git show RUN/evolution:outcome.json` lists the "
        "incumbent's tasks under by_task, and a trial's folder ends in its task's id"
    )


def _splits(context: Context) -> list[str]:
    """Those that were run, newest first, then all others that a round may read."""
    tip = context.archive.tip()
    batches: list[str] = []
    if context.params.mode == "self" and tip is not None:
        last = min(tip.round + 1, len(draw.schedule(context).iterations))
        batches = [batch_name(number) for number in range(last, 0, -1)]
    return [*batches, "validation", "train"]
