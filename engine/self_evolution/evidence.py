"""The evidence of a round on disk: each lineage's trials, and its last update session's record."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.context import Context
from engine.evaluation.scheduler import Scheduler
from engine.measurement import evaluate
from engine.records import Outcome, Rollout
from engine.self_evolution import draw, places, trials
from engine.self_evolution.succession import Head
from engine.workspace import write_workspace

TRIALS, BASE = "trials", "base"
"""Below a lineage's folder: what its session finds at places.TRIALS and places.BASE."""

Observed = tuple[Outcome, list[Rollout]]


def folder(context: Context, slot: str) -> Path:
    """Where a lineage's evidence of the round that is being run lies; it is there once it is
    whole, or not at all."""
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
    measured = await evaluate(context, scheduler, agents, split, f"heads on {split}")
    observed = [
        (outcome, _as_they_count(context.outcome(pair), outcome, rollouts))
        for pair, (outcome, rollouts) in zip(pairs, measured, strict=True)
    ]
    _forget_others(_round_folder(context))
    for head, (_, rollouts) in zip(heads, observed, strict=True):
        place = folder(context, head.slot)
        made = place.with_name(f".{place.name}")
        for old in (place, made):
            shutil.rmtree(old, ignore_errors=True)
        _lay_out(context, made, head, rollouts)
        made.rename(place)
    return observed


def _as_they_count(
    standing: Outcome, outcome: Outcome, rollouts: Sequence[Rollout]
) -> list[Rollout]:
    """Rollouts with the scores that an audit left them, where it spoke of this measurement."""
    if standing.eval_key != outcome.eval_key:
        return list(rollouts)
    place: Counter[str] = Counter()
    counted = []
    for rollout in rollouts:
        name, verdict = rollout.opaque_id, rollout.verdict
        score = standing.by_task[name][place[name]]
        place[name] += 1
        if score != verdict.score:
            verdict = replace(verdict, score=score, accepted=False, failure="cheating")
        counted.append(replace(rollout, verdict=verdict))
    return counted


def fingerprint(context: Context, slot: str) -> str:
    """Of all that a lineage's session is shown: another evidence, another session."""
    whole, place = hashlib.sha256(), folder(context, slot)
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        whole.update(f"{path.relative_to(place)}\0{content}\n".encode())
    return whole.hexdigest()


def _lay_out(context: Context, made: Path, head: Head, rollouts: Sequence[Rollout]) -> None:
    old = draw.anchor_ids(context, context.opened().round)
    trials.lay_out(made / TRIALS, rollouts, old)
    if shows_previous(context, head):
        context.dvc.materialise(head.session, made / TRIALS / Path(places.PREVIOUS).name)
    harness = context.archive.pair(head.pair).harness
    write_workspace(context.archive.harness(harness).files, made / BASE)


def shows_previous(context: Context, head: Head) -> bool:
    """Whether the last session's record is shown: from the second iteration of each stage on."""
    return bool(head.session) and draw.schedule(context)[context.opened().round].step > 0


def _forget_others(current: Path) -> None:
    """Earlier rounds' evidence; the rollouts themselves are in DVC."""
    for other in current.parent.glob("r*"):
        if other != current:
            shutil.rmtree(other, ignore_errors=True)
