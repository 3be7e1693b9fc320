"""observe: the incumbent's rollouts on V, and their diagnosis F_t = diagnose(p_t, O_t)."""

from __future__ import annotations

from engine.context import Context
from engine.diagnosis import Feedback, diagnose
from engine.measurement import evaluate


async def run(context: Context) -> Feedback:
    """The incumbent was measured when it was archived, so its rollouts come from the journal;
    in a fresh clone they are run again."""
    pair = context.archive.pair(context.opened().incumbent)
    async with context.scheduler() as scheduler:
        [(_, rollouts)] = await evaluate(
            context, scheduler, [(pair.harness, pair.checkpoint)], "validation", "incumbent on V"
        )
    return diagnose(rollouts, context.domain)
