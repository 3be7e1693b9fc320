"""edit: the update sessions of all lineages, and their offspring in the archive.

An offspring that passes G_t is a harness commit on its base; one that doesn't is archived as
rejected with the reason, and its lineage stays at H_t.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from engine.archive.drafts import HarnessDraft
from engine.archive.entries import Harness
from engine.brief import Curated
from engine.context import Context
from engine.errors import SandboxError
from engine.evaluation.scheduler import together
from engine.naming import settle
from engine.records import Cost, Edited, Offspring, read
from engine.self_evolution import evidence, places
from engine.self_evolution.session import Proposal, Proposer, write_sessions
from engine.self_evolution.subject import subject
from engine.self_evolution.succession import heads
from kernel.host import WorkerPool
from kernel.sandbox import SandboxUnavailable

EDITOR = "self"


async def run(context: Context) -> Edited:
    """H~_{t+1} of each lineage, or the reason why there is none."""
    start = time.monotonic()
    curated = read(context.record("evidence"), Curated)
    lineages = {head.slot: head for head in heads(context)}
    try:
        async with (
            context.scheduler() as scheduler,
            WorkerPool(sandbox=context.params.sandbox) as pool,
        ):
            if not all(evidence.folder(context, slot).is_dir() for slot in lineages):
                await evidence.gather(context, scheduler, list(lineages.values()))
            proposer = Proposer(context, scheduler, pool)
            with context.observer.bar("update sessions", len(curated.briefs)) as bar:
                proposals = await together(
                    [proposer.propose(brief, lineages[brief.slot]) for brief in curated.briefs]
                )
                bar.advance(len(proposals))
    except SandboxUnavailable as error:
        raise SandboxError(
            f"no sandbox works here ({error}); install bubblewrap, or set `sandbox: none`"
        ) from None
    offspring = tuple(_archive(context, each, proposer.budget) for each in proposals)
    return Edited(offspring, _used(scheduler.cost, time.monotonic() - start))


def _used(cost: Cost, seconds: float) -> Cost:
    return Cost(cost.rollouts, cost.cached, cost.prompt_tokens, cost.completion_tokens, seconds)


def _archive(context: Context, proposal: Proposal, budget: int) -> Offspring:
    result, number = proposal.result, context.opened().round
    base = context.archive.harness(proposal.base)
    said = subject(base.files, proposal.files, result)
    draft = HarnessDraft(
        round=number,
        slot=_slot(context, proposal),
        files=proposal.files,
        subject=said,
        base=proposal.base,
        editor=EDITOR,
        lines_added=result.added,
        line_budget=budget,
        check=result.line,
        rejected=not result.ok,
        session=_record(context, proposal),
    )
    return Offspring(
        slot=draft.slot,
        harness=context.archive.record_harness(draft),
        status="valid" if result.ok else "rejected",
        base=proposal.base,
        editor=EDITOR,
        subject=said,
        reasons=result.reasons,
        repaired=result.ok and len(proposal.attempts) > 1,
        remarks=tuple(
            f"session {n} failed: {attempt.result.line}"
            for n, attempt in enumerate(proposal.attempts[:-1], 1)
        ),
        transcript=draft.session,
    )


def _slot(context: Context, proposal: Proposal) -> str:
    """The lineage's slot; a successor of it where a broken-off try of this round left another
    offspring there."""
    number, result = context.opened().round, proposal.result
    own = context.archive.harnesses(include_rejected=True)
    taken = {harness.label: harness for harness in own if harness.round == number}

    def same(entry: Harness) -> bool:
        alike = (entry.rejected, entry.base) == (not result.ok, proposal.base)
        return alike and dict(entry.files) == dict(proposal.files)

    prefix = f"r{number:03d}-"
    return settle(prefix + proposal.head.slot, taken, same).name.removeprefix(prefix)


def _record(context: Context, proposal: Proposal) -> str:
    """The sessions' record in DVC; the text of its .dvc file."""
    scratch = context.root / ".coevo" / "updating"
    scratch.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=scratch, prefix="record-"))
    try:
        folder = made / Path(places.PREVIOUS).name
        write_sessions(folder, proposal.attempts)
        return context.dvc.add(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
