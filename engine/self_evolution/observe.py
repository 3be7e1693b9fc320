"""observe: the heads' rollouts on batch B_t, laid out whole for the proposer (paper eq. 3).

The diagnosis beside them is for people and for the record; no update session sees it.
"""

from __future__ import annotations

from dataclasses import replace

from engine.context import Context
from engine.diagnosis import Feedback, diagnose
from engine.evaluation.keys import changed
from engine.measurement import archive_pair, archived_pair
from engine.self_evolution import evidence
from engine.self_evolution.evidence import Observed
from engine.self_evolution.succession import Head, heads


async def run(context: Context) -> Feedback:
    """E_t on disk; F_t of the title holder for the record."""
    lineages = heads(context)
    async with context.scheduler() as scheduler:
        observed = await evidence.gather(context, scheduler, lineages)
        cost = scheduler.cost
    for head, seen in zip(lineages, observed, strict=True):
        _archive_news(context, head, seen)
    title = [head.pair for head in lineages].index(context.opened().incumbent)
    return replace(diagnose(observed[title][1], context.domain), cost=cost)


def _archive_news(context: Context, head: Head, seen: Observed) -> None:
    """A head measured anew, under parameters that changed since, is archived beside the old."""
    outcome, rollouts = seen
    pair, number = context.archive.pair(head.pair), context.opened().round
    news = changed(context.recorded(pair.oid).setting, outcome.setting)
    agent = (pair.harness, pair.checkpoint)
    if news and archived_pair(context, *agent, outcome.split) is None:
        context.observer.say(f"  {', '.join(news)} changed: {pair.label} is measured anew")
        archive_pair(context, number, f"r{number:03d}-{head.slot}-again", agent, outcome, rollouts)
