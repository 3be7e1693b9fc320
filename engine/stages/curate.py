"""curate: from F_t and the archive A_{<t} to evidence e_t and K hypotheses (paper eq. 7-8)."""

from __future__ import annotations

import random
import shutil

from engine.archive_view import FixedView
from engine.brief import Curated
from engine.context import Context
from engine.curator import AskingCurator, curator
from engine.curator.rollouts import WithRollouts
from engine.diagnosis import Feedback
from engine.editors import mechanisms
from engine.llm.role import role_model
from engine.records import read, write


async def run(context: Context) -> Curated:
    """Evidence, and one brief for each editor; the briefs stand in files of their own, too."""
    opened, params = context.opened(), context.params
    feedback = read(context.record("feedback"), Feedback)
    view = FixedView(context, opened.round, mechanisms, only=context.generation())
    rng = random.Random(f"{params.seed}/{opened.round}/curate")
    budget, chosen = params.curator.retrieval_budget, curator(params.curator.kind)
    if isinstance(chosen, AskingCurator):
        with role_model(context.root, params, "curator", opened.round, resumed=True) as llm:
            curated = await chosen.ask(
                llm,
                feedback,
                WithRollouts(view, context, opened.round),
                params.offspring,
                rng,
                retrieval_budget=budget,
                context=params.llm.context,
            )
    else:
        curated = chosen.curate(feedback, view, params.offspring, rng, retrieval_budget=budget)
    if curated.notice:
        context.observer.say(f"  curator: {curated.notice}")
    folder = context.root / "round" / "briefs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for brief in curated.briefs:
        write(folder / f"{brief.slot}.json", brief)
    return curated
