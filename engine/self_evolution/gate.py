"""The optional gate, beyond the paper: an offspring may not lose to its base on tasks held back
from every batch (the paper's §5.7 calls validating each update a missing piece)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from engine.context import Context
from engine.evaluation.scheduler import Scheduler
from engine.measurement import evaluate
from engine.records import Outcome
from engine.self_evolution.batches import GATE
from engine.statistics import Difference, paired_bootstrap


@dataclass(frozen=True)
class Gated:
    """An offspring beside its base on the held-back tasks, task by task."""

    outcome: Outcome
    difference: Difference

    @property
    def lost(self) -> bool:
        """Whether the paired interval lies wholly below zero."""
        return self.difference.high < 0

    @property
    def line(self) -> str:
        found = self.difference
        return (
            f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}] against its base on "
            f"{self.outcome.tasks} held-back tasks"
        )


async def gate(
    context: Context, scheduler: Scheduler, base: str, offspring: str, checkpoint: str
) -> Gated | None:
    """Both harnesses on the minibatch, by a paired bootstrap; None where there is no gate. What
    the base did there is in the journal when it was an offspring itself."""
    params = context.params.evolution.gate
    if params is None:
        return None
    agents = [(base, checkpoint), (offspring, checkpoint)]
    results = await evaluate(context, scheduler, agents, GATE, "gate: base and offspring")
    [before, after] = [outcome for outcome, _ in results]
    ids = sorted(before.by_task)
    difference = paired_bootstrap(
        [fmean(before.by_task[id]) for id in ids],
        [fmean(after.by_task[id]) for id in ids],
        level=params.level,
    )
    return Gated(after, difference)
