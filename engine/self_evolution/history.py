"""What a run of self-evolution did, iteration by iteration, read from its archive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.archive.entries import Round
from engine.context import Context
from engine.self_evolution.succession import lineage_of
from kernel import workspace


@dataclass(frozen=True)
class Step:
    """One lineage in one iteration: what it proposed, whether that was accepted and why, and the
    head that came of it, measured on ``batch``. Iteration 0 is the seed.

    ``lines`` are all of the head's Python, ``added`` the proposal's against its base; ``new`` and
    ``anchors`` are the head's scores on the two parts of a batch that has anchors.
    """

    iteration: int
    lineage: str
    harness: str
    name: str
    lines: int
    added: int | None
    budget: int | None
    batch: str
    score: float
    timr: float | None
    new: float | None
    anchors: float | None
    accepted: bool
    repaired: bool
    title: bool
    why: str
    subject: str
    proposal: str


def steps(context: Context, since: int = 0) -> list[Step]:
    """All iterations from ``since`` on, oldest first."""
    found: list[Step] = []
    for done in context.archive.rounds(since=since):
        if done.round == 0:
            found.append(_seed(context, done))
            continue
        whole = json.loads(context.archive.read(done.oid, "round.json"))
        offspring = {lineage_of(o["slot"]): o for o in whole["offspring"]["offspring"]}
        found += [
            _step(context, done, offspring.get(candidate["slot"], {}), candidate)
            for candidate in whole["candidates"]["candidates"]
            if candidate["pair"]
        ]
    return found


def _seed(context: Context, done: Round) -> Step:
    why = "round 0 archives the seed"
    seed = {"harness": context.archive.pair(done.incumbent).harness, "subject": why}
    return _step(context, done, seed, {"slot": "seed", "pair": done.incumbent, "why": why})


def _step(
    context: Context, done: Round, offspring: Mapping[str, Any], candidate: Mapping[str, Any]
) -> Step:
    pair = context.archive.pair(candidate["pair"])
    outcome, head = context.outcome(pair), context.archive.harness(pair.harness)
    made = offspring.get("harness", "")
    entry = context.archive.harness(made) if made else head
    return Step(
        iteration=done.round,
        lineage=candidate["slot"],
        harness=head.oid,
        name=head.label,
        lines=python_lines(head.files),
        added=entry.lines_added if done.round else None,
        budget=entry.line_budget,
        batch=outcome.split,
        score=outcome.score,
        timr=outcome.timr,
        new=outcome.metrics.get("new"),
        anchors=outcome.metrics.get("anchors"),
        accepted=made == head.oid,
        repaired=bool(offspring.get("repaired")),
        title=candidate["pair"] == done.incumbent,
        why=candidate["why"],
        subject=str(offspring.get("subject", "")),
        proposal=made,
    )


def python_lines(files: Mapping[str, bytes]) -> int:
    """Lines of Python in a harness, blank ones and comments too (as the paper's table 4)."""
    code = workspace.code(files)
    return sum(len(text.splitlines()) for name, text in code.items() if name.endswith(".py"))
