"""inherit: pair each offspring with selected or merged checkpoints, and choose p̄ on V.

Q_sel is built from proposals, a preliminary evaluation on a part of V ranks them, and the short
list is measured on all of V (paper "Model Inheritance", eq. 9-12).
"""

from __future__ import annotations

import string
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.context import Context
from engine.evaluation.scheduler import Scheduler
from engine.inheritance import CheckpointFact, History, PairFact, policy
from engine.measurement import evaluate, incumbent_today, measure_on_validation
from engine.merging import Merging
from engine.promotion import order
from engine.records import Candidate, Cost, Edited, Inherited, Offspring, Outcome, read

_POLICY_OF_MODE = {"harness-only": "seed-only", "latest-only": "latest-only"}


@dataclass(frozen=True)
class _Draft:
    """A candidate before it is measured, and the name its pair will have."""

    name: str
    candidate: Candidate


async def run(context: Context) -> Inherited:
    """Candidates, their preliminary outcomes, the measured short list, and p̄."""
    opened = context.opened()
    edited = read(context.record("offspring"), Edited)
    valid = [o for o in edited.offspring if o.status == "valid"]
    if not valid:
        return Inherited((), None, "no valid offspring: nothing to pair")
    reference = context.outcome(incumbent_today(context))
    history = _history(context, opened.incumbent)
    start, merger = time.monotonic(), Merging(context, opened.round)
    drafts = [d for o in valid for d in _propose(context, history, merger, o)]
    merging = Cost(seconds=time.monotonic() - start)
    async with context.scheduler() as scheduler:
        drafts = await _preliminary(context, scheduler, drafts)
        short = drafts[: context.params.inheritance.shortlist]
        named = {d.name: (d.candidate.harness, d.candidate.checkpoint) for d in short}
        pairs = await measure_on_validation(
            context, scheduler, opened.round, named, f"{len(short)} candidates on V"
        )
        cost = merging + scheduler.cost
    candidates = tuple(replace(d.candidate, pair=pairs.get(d.name)) for d in drafts)
    return Inherited(candidates, _select(context, reference, candidates), merger.note, cost)


def _propose(
    context: Context, history: History, merger: Merging, offspring: Offspring
) -> list[_Draft]:
    params = context.params
    kind = _POLICY_OF_MODE.get(params.mode, params.inheritance.kind)
    inheritance = params.inheritance
    proposals = policy(kind).propose(
        history, offspring.base, inheritance.merges, inheritance.density, inheritance.normalize
    )
    drafts: list[_Draft] = []
    for proposal in proposals:
        if len(drafts) == inheritance.proposals:
            break
        checkpoint = proposal.single or merger.checkpoint(proposal)
        if checkpoint is None or checkpoint in {d.candidate.checkpoint for d in drafts}:
            continue
        letter = string.ascii_lowercase[len(drafts)]
        name = f"r{context.opened().round:03d}-{offspring.slot}-{letter}"
        alpha = dict(proposal.alpha)
        drafts.append(
            _Draft(
                name,
                Candidate(offspring.slot, offspring.harness, checkpoint, alpha, proposal.why),
            )
        )
    return drafts


async def _preliminary(
    context: Context, scheduler: Scheduler, drafts: Sequence[_Draft]
) -> list[_Draft]:
    """Rank candidates on a part of V; skipped where all of them fit the short list anyway."""
    if len(drafts) <= context.params.inheritance.shortlist:
        return list(drafts)
    part = context.params.inheritance.preliminary
    results = await evaluate(
        context,
        scheduler,
        [(d.candidate.harness, d.candidate.checkpoint) for d in drafts],
        "validation",
        f"{len(drafts)} candidates on {part} of V",
        part,
    )
    return sorted(
        (
            _Draft(d.name, replace(d.candidate, preliminary=outcome))
            for d, (outcome, _) in zip(drafts, results, strict=True)
        ),
        key=lambda d: _preliminary_order(context, d),
        reverse=True,
    )


def _preliminary_order(context: Context, draft: _Draft) -> tuple[bool, tuple[float, float]]:
    """Floors only: the incumbent's gates on all of V are no measure for a part of it."""
    assert draft.candidate.preliminary is not None
    return order(context.domain, draft.candidate.preliminary, [])


def _select(context: Context, reference: Outcome, candidates: Sequence[Candidate]) -> str | None:
    """p̄: the best measured candidate by the domain's objective; those that hold the gates
    against the incumbent (``reference``) go before those that don't."""
    return max(
        (c.pair for c in candidates if c.pair),
        key=lambda pair: order(context.domain, context.outcome(pair), [reference]),
        default=None,
    )


def _history(context: Context, incumbent: str) -> History:
    """A_{<t}: without what a broken-off try of this round has archived, so that a resumed round
    proposes what an uninterrupted one does."""
    number, seed = context.opened().round, context.seed_checkpoint()
    facts = {
        pair.oid: PairFact(pair.harness, pair.checkpoint, pair.round, outcome.scalar, outcome.timr)
        for pair in context.archive.pairs()
        if pair.round < number
        for outcome in [context.outcome(pair)]
    }
    checkpoints = tuple(
        CheckpointFact(c.oid, c.round, c.method, tuple(c.sources))
        for c in context.archive.checkpoints()
        if c.round < number and (c.method != "seed" or c.oid == seed)
    )
    return History(checkpoints, tuple(facts.values()), facts[incumbent])
