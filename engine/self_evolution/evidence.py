"""The evidence of a round on disk: each lineage's trials, and its last update session's record."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from engine.context import Context
from engine.evaluation.scheduler import Scheduler
from engine.measurement import evaluate
from engine.records import Outcome, Rollout
from engine.self_evolution import draw, places, trials
from engine.self_evolution.batches import batch_number
from engine.self_evolution.succession import Head

Observed = tuple[Outcome, list[Rollout]]


def folder(context: Context, slot: str) -> Path:
    """Where a lineage's evidence of the round that is being run lies."""
    return _round_folder(context) / slot


def _round_folder(context: Context) -> Path:
    run, number = context.params.run, context.opened().round
    return context.root / ".coevo" / "evolution" / run / f"r{number:03d}"


async def gather(context: Context, scheduler: Scheduler, heads: Sequence[Head]) -> list[Observed]:
    """Each head's rollouts of the batch, from the journal (or run again where that is lost), laid
    out for the update sessions in place of earlier rounds' evidence."""
    number = context.opened().round
    split = context.measured_on(number - 1)
    pairs = [context.archive.pair(head.pair) for head in heads]
    agents = [(pair.harness, pair.checkpoint) for pair in pairs]
    observed = await evaluate(context, scheduler, agents, split, f"heads on {split}")
    old = draw.anchor_ids(context, batch_number(split) or 0)
    _forget_others(_round_folder(context))
    for head, (_, rollouts) in zip(heads, observed, strict=True):
        place = folder(context, head.slot)
        trials.lay_out(place, rollouts, old)
        if shows_previous(context, head):
            context.dvc.materialise(head.session, place / Path(places.PREVIOUS).name)
    return observed


def shows_previous(context: Context, head: Head) -> bool:
    """Whether the last session's record is shown: from the second iteration of each stage on."""
    return bool(head.session) and draw.schedule(context)[context.opened().round].step > 0


def _forget_others(current: Path) -> None:
    """Earlier rounds' evidence; the rollouts themselves are in DVC."""
    for other in current.parent.glob("r*"):
        if other != current:
            shutil.rmtree(other, ignore_errors=True)
