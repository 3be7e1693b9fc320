"""inherit: pair each offspring with selected or merged checkpoints, and choose p̄ on V.

Q_sel is built from proposals, a preliminary evaluation on a part of V ranks them, and the short
list is measured on all of V (paper "Model Inheritance", eq. 9-12).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from engine.candidates import Draft, Slot, past
from engine.context import Context
from engine.evaluation.scheduler import Scheduler
from engine.inheritance import (
    AskingPolicy,
    Decided,
    History,
    Proposal,
    Terms,
    Trial,
    policy,
)
from engine.llm.dialogue import Asked
from engine.llm.role import role_model
from engine.measurement import evaluate, incumbent_today, measure
from engine.merging import Merging
from engine.promotion import order
from engine.records import Candidate, Cost, Edited, Inherited, Outcome, read

_POLICY_OF_MODE = {"harness-only": "seed-only", "latest-only": "latest-only"}


async def run(context: Context) -> Inherited:
    """Candidates, their preliminary outcomes, the measured short list, and p̄."""
    opened = context.opened()
    edited = read(context.record("offspring"), Edited)
    valid = [o for o in edited.offspring if o.status == "valid"]
    if not valid:
        return Inherited((), None, "no valid offspring: nothing to pair")
    reference = context.outcome(incumbent_today(context))
    history = past(context, opened.incumbent)
    start, merger = time.monotonic(), Merging(context, opened.round)
    slots = [Slot(context, merger, offspring) for offspring in valid]
    async with context.scheduler() as scheduler:
        decided = await _propose(context, scheduler, history, reference, slots)
        spent = time.monotonic() - start - scheduler.cost.seconds
        merging = Cost(seconds=max(spent, 0.0))
        drafts = await _preliminary(context, scheduler, [d for s in slots for d in s.drafts])
        short = drafts[: context.params.inheritance.shortlist]
        named = {d.name: (d.candidate.harness, d.candidate.checkpoint) for d in short}
        pairs = await measure(
            context, scheduler, opened.round, named, f"{len(short)} candidates on V"
        )
        cost = merging + scheduler.cost
    candidates = tuple(replace(d.candidate, pair=pairs.get(d.name)) for d in drafts)
    note = merger.note + " ".join(each.notice for each in decided if each.notice)
    decisions = tuple(step for each in decided for step in each.decisions)
    return Inherited(candidates, _select(context, reference, candidates), note, cost, decisions)


async def _propose(
    context: Context,
    scheduler: Scheduler,
    history: History,
    reference: Outcome,
    slots: Sequence[Slot],
) -> list[Decided]:
    """Fill the slots with candidates."""
    params = context.params.inheritance
    chosen = policy(_POLICY_OF_MODE.get(context.params.mode, params.kind))
    if isinstance(chosen, AskingPolicy):
        number = slots[0].round
        with role_model(context.root, context.params, "inheritance", number, resumed=True) as llm:
            return [
                await _ask(context, scheduler, history, reference, slot, chosen, llm)
                for slot in slots
            ]
    for slot in slots:
        for proposal in chosen.propose(
            history, slot.offspring.base, params.merges, params.density, params.normalize
        ):
            if slot.full:
                break
            slot.add(proposal)
    return []


async def _ask(
    context: Context,
    scheduler: Scheduler,
    history: History,
    reference: Outcome,
    slot: Slot,
    chosen: AskingPolicy,
    llm: Asked,
) -> Decided:
    """One offspring's candidates, each measured on a part of V before the next is proposed."""
    params = context.params.inheritance

    async def attempt(proposal: Proposal) -> Trial:
        draft = slot.add(proposal)
        if draft is None:
            return Trial(slot.refusal)
        [outcome] = await _on_part(context, scheduler, [draft])
        slot.drafts[-1] = draft.measured(outcome)
        ids = sorted(outcome.by_task.keys() & reference.by_task.keys())
        before = [score for id in ids for score in reference.by_task[id]]
        return Trial(
            tasks=outcome.tasks,
            score=outcome.score,
            scalar=outcome.scalar,
            timr=outcome.timr,
            incumbent=sum(before) / len(before) if before else 0.0,
        )

    terms = Terms(
        params.proposals,
        params.merges,
        params.density,
        params.normalize,
        context.params.llm.context,
    )
    decided = await chosen.ask(llm, history, slot.heir, terms, attempt, slot.offspring.slot)
    if decided.notice:
        context.observer.say(f"  inheritance: {decided.notice}")
    return decided


async def _preliminary(
    context: Context, scheduler: Scheduler, drafts: Sequence[Draft]
) -> list[Draft]:
    """Rank candidates on a part of V; skipped where all of them fit the short list anyway."""
    if len(drafts) <= context.params.inheritance.shortlist:
        return list(drafts)
    results = await _on_part(context, scheduler, drafts)
    return sorted(
        (d.measured(outcome) for d, outcome in zip(drafts, results, strict=True)),
        key=lambda d: _preliminary_order(context, d),
        reverse=True,
    )


async def _on_part(
    context: Context, scheduler: Scheduler, drafts: Sequence[Draft]
) -> list[Outcome]:
    """Outcomes on a part of V; what is known of it comes from the journal."""
    part = context.params.inheritance.preliminary
    agents = [(d.candidate.harness, d.candidate.checkpoint) for d in drafts]
    title = f"{len(drafts)} candidates on {part} of V"
    results = await evaluate(context, scheduler, agents, "validation", title, part)
    return [outcome for outcome, _ in results]


def _preliminary_order(context: Context, draft: Draft) -> tuple[bool, tuple[float, float]]:
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
