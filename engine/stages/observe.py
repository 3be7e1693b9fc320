"""observe: the incumbent's rollouts on V, and their diagnosis F_t = diagnose(p_t, O_t)."""

from __future__ import annotations

from dataclasses import replace

from engine.context import Context
from engine.diagnosis import Feedback, diagnose
from engine.evaluation.keys import changed
from engine.measurement import archive_pair, archived_pair, evaluate


async def run(context: Context) -> Feedback:
    """The incumbent was measured when it was archived, so its rollouts come from the journal; in a
    fresh clone they are run again. Where the setting has changed since, the new measurement is
    archived beside the old one, and the round compares with that."""
    opened = context.opened()
    pair = context.archive.pair(opened.incumbent)
    agent = (pair.harness, pair.checkpoint)
    async with context.scheduler() as scheduler:
        [(outcome, rollouts)] = await evaluate(
            context, scheduler, [agent], "validation", "incumbent on V"
        )
        cost = scheduler.cost
    news = changed(context.outcome(pair).setting, outcome.setting)
    if news and archived_pair(context, *agent) is None:
        context.observer.say(f"  {', '.join(news)} changed: the incumbent is measured anew")
        name = f"r{opened.round:03d}-incumbent"
        archive_pair(context, opened.round, name, agent, outcome, rollouts)
    return replace(diagnose(rollouts, context.domain), cost=cost)
