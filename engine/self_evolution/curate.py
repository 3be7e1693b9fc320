"""curate: the update task I_t of each lineage. Nothing is selected and nothing summed up."""

from __future__ import annotations

import shutil
from collections import Counter

from engine.brief import Brief, Curated, Evidence
from engine.context import Context
from engine.records import write
from engine.self_evolution import draw
from engine.self_evolution.evidence import shows_previous
from engine.self_evolution.schedule import family_of
from engine.self_evolution.succession import Head, heads
from engine.self_evolution.update import update_task


async def run(context: Context) -> Curated:
    """One brief for each lineage: its whole instruction, word for word."""
    briefs = tuple(_brief(context, head) for head in heads(context))
    folder = context.root / "round" / "briefs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for brief in briefs:
        write(folder / f"{brief.slot}.json", brief)
    return Curated(Evidence(_facts(context), ()), briefs)


def _brief(context: Context, head: Head) -> Brief:
    budget = draw.schedule(context)[context.opened().round].budget
    text = update_task(budget, input_tokens(context), shows_previous(context, head))
    base = context.archive.pair(head.pair).harness
    return Brief(head.slot, "update", text, failure="", mechanisms=(), base=base)


def input_tokens(context: Context) -> int:
    """What one request may hold: the context without the room for a reply."""
    params = context.params
    return max(params.serving.context - params.sampling.max_tokens, 1)


def _facts(context: Context) -> str:
    number = context.opened().round
    planned = draw.schedule(context)
    now, split = planned[number], context.measured_on(number - 1)
    sizes = Counter(map(family_of, context.tasks(split)))
    return (
        f"Iteration {number} of {len(planned.iterations)}, stage {now.stage} (its {now.step + 1} "
        f"of {now.steps}), at most {now.budget} added lines. {split}: all "
        f"{sum(sizes.values())} trials ("
        + ", ".join(f"{count} {family}" for family, count in sizes.items())
        + f"), of which {len(draw.anchor_ids(context, number))} anchors."
    )
