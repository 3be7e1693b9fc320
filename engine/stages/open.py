"""open: archive round 0 where there is none, and name the round that is run next."""

from __future__ import annotations

from engine import splits
from engine.archive.drafts import CheckpointDraft, HarnessDraft, RoundDraft
from engine.context import SPLITS_FILE, Context
from engine.errors import ConfigError
from engine.leftovers import sweep
from engine.measurement import measure
from engine.naming import settle
from engine.records import Opened, metrics_bytes, to_bytes
from engine.self_evolution.draw import require_schedule
from engine.workspace import read_workspace


async def run(context: Context) -> Opened:
    """Resume the round that broke off, else open the next one; when the last of ``rounds:`` is
    done, name it again, so that nothing after this stage has anything to do."""
    sweep(context.root)
    context.archive.recover()
    if context.archive.tip() is None:
        await _round_zero(context)
    elif context.params.mode == "self":
        require_schedule(context, context.tasks("train"))
    tip = context.archive.tip()
    assert tip is not None
    if tip.round >= context.params.rounds:
        return _finished(context, tip.round)
    return Opened(
        round=tip.round + 1, run=context.params.run, incumbent=tip.incumbent, previous=tip.oid
    )


def _finished(context: Context, last: int) -> Opened:
    context.observer.say(f"  all {last} rounds are done; raise `rounds:` in params.yaml to go on")
    before = context.archive.round(f"r{max(last - 1, 0):03d}")
    return Opened(last, context.params.run, before.incumbent, before.oid)


async def _round_zero(context: Context) -> None:
    """Archive the seed harness, the seed checkpoint and their measured pair."""
    archive = context.archive
    context.observer.say("round 0: freezing the splits, archiving the seed pair")
    made = splits.make(context.root, context.params, context.domain)
    for rows, what in (
        (made.skipped, "malformed rows are skipped"),
        (made.left_out, "rows are left out by the domain's filters"),
    ):
        if rows:
            context.observer.say(f"  {len(rows)} {what}:")
        for line in rows:
            context.observer.say(f"    {line}")
    if context.params.mode == "self":
        require_schedule(context, made.parts["train"])
    frozen = splits.freeze(context.root, context.params, made, context.dvc)
    context.__dict__["frozen"] = frozen
    if context.params.inheritance.preliminary > frozen.splits["validation"].tasks:
        raise ConfigError(
            "params.yaml: inheritance.preliminary is larger than the validation split"
        )
    harness, checkpoint = _seed_harness(context), _seed_checkpoint(context)
    async with context.scheduler() as scheduler:
        named = {"r000-seed": (harness, checkpoint)}
        where = "V" if context.measured_on(0) == "validation" else "batch 1"
        pairs = await measure(context, scheduler, 0, named, f"seed pair on {where}")
        cost = scheduler.cost
    pair = pairs["r000-seed"]
    outcome = context.outcome(pair)
    archive.notes_rebuild()
    archive.record_round(
        RoundDraft(
            round=0,
            incumbent=pair,
            promoted=False,
            gain=None,
            pairs=(pair,),
            others=(),
            files={
                SPLITS_FILE: to_bytes(frozen),
                "metrics.json": metrics_bytes(0, outcome),
                **context.pipeline_files(),
            },
            costs=cost.figures(),
            subject=f"Round 0: seed pair, score {outcome.score:.3f}",
        )
    )


def _seed_harness(context: Context) -> str:
    """The domain's seed harness, archived; the one there is where round 0 broke off after it."""
    files = dict(read_workspace(context.domain.seed_harness))
    taken = {h.label: h for h in context.archive.harnesses()}
    settled = settle("r000-seed", taken, lambda h: dict(h.files) == files)
    if settled.known is not None:
        return settled.known.oid
    return context.archive.record_harness(
        HarnessDraft(
            round=0,
            slot=settled.name.removeprefix("r000-"),
            files=files,
            base=None,
            adopts=(),
            editor="hand",
            lines_added=0,
            line_budget=None,
            check="passed",
            subject=f"Archive the seed harness of {context.domain.name}",
        )
    )


def _seed_checkpoint(context: Context) -> str:
    """The seed checkpoint that params.yaml names, archived once."""
    stored = context.checkpoints.seed(context.params.model.seed)
    taken = {c.label: c for c in context.archive.checkpoints()}
    settled = settle("r000-seed", taken, lambda c: c.weights == stored.digest)
    if settled.known is not None:
        return settled.known.oid
    return context.archive.record_checkpoint(
        CheckpointDraft(
            name=settled.name,
            round=0,
            method="seed",
            sources=(),
            alpha=(),
            trained_under=None,
            weights=stored.digest,
            dvc=stored.dvc_text,
            provenance=stored.provenance,
            card=(stored.path / "README.md").read_text("utf-8"),
            subject=f"Archive the seed checkpoint {context.params.model.seed}",
        )
    )
