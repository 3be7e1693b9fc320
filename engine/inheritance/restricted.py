"""Policies of the ablations and of other methods: frozen weights, only the latest generation, the
parent branch."""

from __future__ import annotations

from collections.abc import Sequence

from engine.inheritance import History, Proposal


class SeedOnly:
    """Harness-only evolution: the model is frozen at the seed checkpoint."""

    def propose(
        self, history: History, base: str, merges: int, density: float, normalize: bool
    ) -> Sequence[Proposal]:
        del base, merges, density, normalize
        seed = next(c for c in history.checkpoints if c.method == "seed")
        return [Proposal({seed.oid: 1.0}, "the frozen seed checkpoint")]


class LatestOnly:
    """No historical weights: the incumbent's checkpoint alone."""

    def propose(
        self, history: History, base: str, merges: int, density: float, normalize: bool
    ) -> Sequence[Proposal]:
        del base, merges, density, normalize
        return [Proposal({history.incumbent.checkpoint: 1.0}, "the latest checkpoint")]


class ParentBranch:
    """The policy of the parent's branch (HarnessForge, the first paper's table 10): the checkpoint
    that the base, or the nearest ancestor that was measured, did best with. Nothing else of the
    history is selected or merged."""

    def propose(
        self, history: History, base: str, merges: int, density: float, normalize: bool
    ) -> Sequence[Proposal]:
        del merges, density, normalize
        bases = {fact.oid: fact.base for fact in history.harnesses}
        here: str | None = base
        while here:
            own = [pair for pair in history.pairs if pair.harness == here]
            if own:
                best = max(own, key=lambda pair: pair.scalar)
                return [Proposal({best.checkpoint: 1.0}, "the policy of the parent's branch")]
            here = bases.get(here)
        seed = next(c for c in history.checkpoints if c.method == "seed")
        return [Proposal({seed.oid: 1.0}, "no ancestor was measured: the seed checkpoint")]
