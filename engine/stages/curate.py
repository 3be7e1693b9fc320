"""curate: from F_t and the archive A_{<t} to evidence e_t and K hypotheses (paper eq. 7-8)."""

from __future__ import annotations

import random
import shutil

from engine.archive_view import FixedView
from engine.brief import Curated
from engine.context import Context
from engine.curator import curator
from engine.diagnosis import Feedback
from engine.editors import mechanisms
from engine.records import read, write


async def run(context: Context) -> Curated:
    """Evidence, and one brief for each editor; the briefs stand in files of their own, too."""
    opened, params = context.opened(), context.params
    feedback = read(context.record("feedback"), Feedback)
    view = FixedView(context, opened.round, mechanisms, only=context.generation())
    curated = curator(params.curator.kind).curate(
        feedback,
        view,
        params.offspring,
        random.Random(f"{params.seed}/{opened.round}/curate"),
        retrieval_budget=params.curator.retrieval_budget,
    )
    folder = context.root / "round" / "briefs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for brief in curated.briefs:
        write(folder / f"{brief.slot}.json", brief)
    return curated
