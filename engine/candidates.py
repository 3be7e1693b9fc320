"""Candidate pairs of a round: what proposals make of an offspring, before anything is measured on
all of V; and the archive as those who propose read it.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, replace

from engine.context import Context
from engine.inheritance import CheckpointFact, HarnessFact, History, PairFact, Proposal
from engine.merging import Merging
from engine.records import Candidate, Offspring, Outcome

_SETTINGS = ("density", "normalize", "lambda")


@dataclass(frozen=True)
class Draft:
    """A candidate before it is measured, and the name its pair will have."""

    name: str
    candidate: Candidate

    def measured(self, outcome: Outcome) -> Draft:
        """With its outcome on a part of V."""
        return Draft(self.name, replace(self.candidate, preliminary=outcome))


class Slot:
    """One offspring and its candidates; ``refusal`` is why the last proposal made none."""

    def __init__(self, context: Context, merger: Merging, offspring: Offspring) -> None:
        self.offspring, self.refusal = offspring, ""
        self.drafts: list[Draft] = []
        self.round = context.opened().round
        self._merger, self._most = merger, context.params.inheritance.proposals

    @property
    def full(self) -> bool:
        return len(self.drafts) >= self._most

    @property
    def heir(self) -> HarnessFact:
        """The offspring as a policy sees it."""
        own = self.offspring
        label, adopts = f"r{self.round:03d}-{own.slot}", tuple(oid for oid, _ in own.adopts)
        return HarnessFact(own.harness, label, own.subject, own.base, adopts)

    def add(self, proposal: Proposal) -> Draft | None:
        """The candidate that a proposal makes; None where its merge is refused or its checkpoint
        is a candidate's already."""
        noted = len(self._merger.note)
        checkpoint = proposal.single or self._merger.checkpoint(proposal)
        if checkpoint is None:
            self.refusal = self._merger.note[noted:].strip() or "this merge was refused before"
            return None
        if checkpoint in {draft.candidate.checkpoint for draft in self.drafts}:
            self.refusal = "that checkpoint is a candidate already"
            return None
        letter = string.ascii_lowercase[len(self.drafts)]
        slot, harness = self.offspring.slot, self.offspring.harness
        candidate = Candidate(slot, harness, checkpoint, dict(proposal.alpha), proposal.why)
        self.drafts.append(Draft(f"r{self.round:03d}-{slot}-{letter}", candidate))
        return self.drafts[-1]


def past(context: Context, incumbent: str) -> History:
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
        CheckpointFact(
            c.oid,
            c.round,
            c.method,
            tuple(c.sources),
            c.label,
            c.alpha,
            c.trained_under,
            {name: c.provenance[name] for name in _SETTINGS if name in c.provenance},
        )
        for c in context.archive.checkpoints()
        if c.round < number and (c.method != "seed" or c.oid == seed)
    )
    harnesses = tuple(
        HarnessFact(h.oid, h.label, h.subject, h.base)
        for h in context.archive.harnesses()
        if h.round < number
    )
    return History(checkpoints, tuple(facts.values()), facts[incumbent], harnesses)
