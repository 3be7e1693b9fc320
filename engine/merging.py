"""Mixtures become archived checkpoints: merged once in a run, each with its config."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Container, Mapping, Sequence

from engine.archive.drafts import CheckpointDraft
from engine.archive.entries import Checkpoint
from engine.checkpoints import Stored
from engine.context import Context
from engine.inheritance import MergeRefused, Proposal, merger


class Merging:
    """Merges each distinct mixture once and archives it; a refused one is noted."""

    def __init__(self, context: Context, round_number: int) -> None:
        self._context, self._round = context, round_number
        self._made: dict[str, str | None] = {}
        self._numbers = itertools.count(1)
        self.note = ""

    def checkpoint(self, proposal: Proposal) -> str | None:
        mark = repr((sorted(proposal.alpha.items()), _settings(proposal)))
        if mark not in self._made:
            self._made[mark] = self._merge(proposal)
        return self._made[mark]

    def _merge(self, proposal: Proposal) -> str | None:
        context = self._context
        archive, store = context.archive, context.checkpoints
        merges = [c for c in archive.checkpoints() if c.method == "ties"]
        for checkpoint in merges:
            if _is_of(checkpoint, proposal):
                return checkpoint.oid
        name = self._free_name({c.label for c in merges})
        sources = [archive.checkpoint(oid) for oid in proposal.alpha]
        seed = archive.checkpoint(context.seed_checkpoint())
        out = context.root / ".coevo" / "merging" / name
        shutil.rmtree(out, ignore_errors=True)
        context.observer.say(f"  merging {len(sources)} checkpoints (TIES): {proposal.why}")
        try:
            config = merger(context.params.inheritance.merger)(
                [store.path(c.weights, c.dvc) for c in sources],
                list(proposal.alpha.values()),
                store.path(seed.weights, seed.dvc),
                out,
                proposal.density,
                proposal.normalize,
                proposal.scale,
            )
        except MergeRefused as error:
            self.note += f"{name} refused: {error}. "
            return None
        stored = store.add(out)
        for checkpoint in merges:
            if checkpoint.weights == stored.digest:
                return checkpoint.oid
        if any(c.weights == stored.digest for c in archive.checkpoints()):
            self.note += f"{name} refused: the merge changed nothing. "
            return None
        return archive.record_checkpoint(
            self._draft(name, proposal, [c.oid for c in sources], stored, config)
        )

    def _free_name(self, taken: Container[str]) -> str:
        """The next name; one that a broken-off try of this round gave to another mixture is
        passed over."""
        names = (f"r{self._round:03d}-m{number}" for number in self._numbers)
        return next(name for name in names if name not in taken)

    def _draft(
        self,
        name: str,
        proposal: Proposal,
        sources: Sequence[str],
        stored: Stored,
        config: Mapping[str, object],
    ) -> CheckpointDraft:
        weights = ", ".join(f"{weight:g} of {oid[:12]}" for oid, weight in proposal.alpha.items())
        return CheckpointDraft(
            name=name,
            round=self._round,
            method="ties",
            sources=tuple(sources),
            alpha=tuple(proposal.alpha.values()),
            trained_under=None,
            weights=stored.digest,
            dvc=stored.dvc_text,
            provenance={
                "method": "ties",
                "why": proposal.why,
                "density": proposal.density,
                "normalize": proposal.normalize,
                "lambda": proposal.scale,
                "mergekit": dict(config),
            },
            card=f"# {name}\n\nTIES merge: {weights}. {proposal.why}.\n",
            subject=f"Merge {name}: {proposal.why}",
        )


def _is_of(checkpoint: Checkpoint, proposal: Proposal) -> bool:
    """Whether an archived merge is of this mixture, made in the same way."""
    made = checkpoint.provenance
    settings = (made.get("density"), made.get("normalize"), made.get("lambda", 1.0))
    alpha = dict(zip(checkpoint.sources, checkpoint.alpha, strict=True))
    return alpha == dict(proposal.alpha) and settings == _settings(proposal)


def _settings(proposal: Proposal) -> tuple[float, bool, float]:
    return proposal.density, proposal.normalize, proposal.scale
