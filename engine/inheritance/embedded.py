"""Checkpoint choices without an LLM: from provenance, TIMR and scores of past pairs."""

from __future__ import annotations

from collections.abc import Sequence

from engine.inheritance import CheckpointFact, History, PairFact, Proposal


class EmbeddedPolicy:
    """The incumbent's checkpoint, then mixtures of the checkpoints with the best outcomes, then
    what else has shown something: a short list still holds one of the first two kinds."""

    def propose(
        self, history: History, base: str, merges: int, density: float, normalize: bool
    ) -> Sequence[Proposal]:
        incumbent, *others = self._selections(history, base)
        return [incumbent, *self._mixtures(history, merges, density, normalize), *others]

    def _selections(self, history: History, base: str) -> list[Proposal]:
        reasons: dict[str, str] = {history.incumbent.checkpoint: "the incumbent's checkpoint"}
        at_base = [pair for pair in history.pairs if pair.harness == base]
        if at_base:
            best = max(at_base, key=_quality)
            reasons.setdefault(best.checkpoint, "the best outcome under the offspring's base")
            calm = min(at_base, key=lambda pair: 1.0 if pair.timr is None else pair.timr)
            reasons.setdefault(calm.checkpoint, "the lowest TIMR under the offspring's base")
        if history.pairs:
            top = max(history.pairs, key=_quality)
            reasons.setdefault(top.checkpoint, "the best outcome in the archive")
        return [Proposal({oid: 1.0}, why) for oid, why in reasons.items()]

    def _mixtures(
        self, history: History, merges: int, density: float, normalize: bool
    ) -> list[Proposal]:
        trained = [c for c in history.checkpoints if c.method == "sft"]
        ranked = sorted(trained, key=lambda c: _best(history, c.oid), reverse=True)
        proposals: list[Proposal] = []
        if len(ranked) >= 2:
            first, second = ranked[0].oid, ranked[1].oid
            proposals += [
                Proposal(
                    {first: 0.5, second: 0.5},
                    "even merge of the two best adapted checkpoints",
                    density,
                    normalize,
                ),
                Proposal(
                    {first: 0.7, second: 0.3},
                    "merge leaning on the best adapted checkpoint",
                    density,
                    normalize,
                ),
            ]
        if len(ranked) >= 3:
            weights = dict(zip((c.oid for c in ranked[:3]), (0.4, 0.3, 0.3), strict=True))
            proposals.append(
                Proposal(weights, "merge of the three best adapted checkpoints", density, normalize)
            )
        seed = _seed(history.checkpoints)
        if ranked and seed is not None:
            # The seed's task vector is zero: without renormalising, this mixture is a step back
            # towards the seed, which undoes some of an over-narrow adaptation.
            proposals.append(
                Proposal(
                    {ranked[0].oid: 0.7, seed: 0.3},
                    "the best adapted checkpoint drawn back towards the seed",
                    density,
                    False,
                )
            )
        return proposals[:merges]


def _quality(pair: PairFact) -> tuple[float, float]:
    return (pair.scalar, -(1.0 if pair.timr is None else pair.timr))


def _best(history: History, checkpoint: str) -> tuple[float, float]:
    outcomes = [_quality(pair) for pair in history.pairs if pair.checkpoint == checkpoint]
    return max(outcomes, default=(-1.0, 0.0))


def _seed(checkpoints: Sequence[CheckpointFact]) -> str | None:
    return next((c.oid for c in checkpoints if c.method == "seed"), None)
