"""Policies of the ablations: frozen weights, and only the latest generation."""

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
