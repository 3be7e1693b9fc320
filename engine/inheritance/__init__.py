"""Model inheritance: which checkpoints, selected or merged, an offspring is paired with.

A policy proposes mixtures α over archived checkpoints (α_j ≥ 0, Σα = 1; one-hot is selection,
several are a TIES merge). The table takes a name or a dotted path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.seams import find


@dataclass(frozen=True)
class CheckpointFact:
    """What a policy knows of an archived checkpoint."""

    oid: str
    round: int
    method: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class PairFact:
    """A measured pair: a checkpoint's outcome in its own harness context."""

    harness: str
    checkpoint: str
    round: int
    scalar: float
    timr: float | None


@dataclass(frozen=True)
class History:
    """The archive as model inheritance reads it; ``incumbent`` is p_t."""

    checkpoints: tuple[CheckpointFact, ...]
    pairs: tuple[PairFact, ...]
    incumbent: PairFact


@dataclass(frozen=True)
class Proposal:
    """One mixture α over checkpoint hashes, and why it is worth a look.

    ``normalize``, ``density`` and ``scale`` (λ, which the merged change is multiplied by) configure
    TIES and mean nothing for a one-hot α.
    """

    alpha: Mapping[str, float]
    why: str
    density: float = 1.0
    normalize: bool = True
    scale: float = 1.0

    @property
    def single(self) -> str | None:
        """The selected checkpoint of a one-hot α."""
        chosen = [oid for oid, weight in self.alpha.items() if weight > 0]
        return chosen[0] if len(chosen) == 1 else None


class InheritancePolicy(Protocol):
    """Proposes; measuring and choosing are the stage's."""

    def propose(
        self, history: History, base: str, merges: int, density: float, normalize: bool
    ) -> Sequence[Proposal]:
        """Proposals for an offspring developed from harness ``base``, best first, with at most
        ``merges`` mixtures of several checkpoints."""
        ...


POLICIES = {
    "embedded": "engine.inheritance.embedded:EmbeddedPolicy",
    "seed-only": "engine.inheritance.restricted:SeedOnly",
    "latest-only": "engine.inheritance.restricted:LatestOnly",
}


MERGERS = {"mergekit": "engine.inheritance.merge:merge"}


class Merger(Protocol):
    """Merges weights; the table ``MERGERS`` names them."""

    def __call__(
        self,
        sources: list[Path],
        weights: list[float],
        base: Path,
        out: Path,
        density: float,
        normalize: bool,
        scale: float = 1.0,
    ) -> Mapping[str, Any]:
        """Write the TIES merge of ``sources`` to ``out``, a folder that then is a checkpoint, and
        return the configuration used. Raises MergeRefused where there is nothing sound to make."""
        ...


class MergeRefused(Exception):
    """A merge that would change nothing or can't be sound; the message is the reason."""


def policy(name: str) -> InheritancePolicy:
    """The policy called ``name``, or at ``module:Class``. Raises ConfigError if unknown."""
    made: InheritancePolicy = find("inheritance.kind", name, POLICIES)()
    return made


def merger(name: str) -> Merger:
    """The merger called ``name``, or at ``module:function``. Raises ConfigError if unknown."""
    found: Merger = find("inheritance.merger", name, MERGERS)
    return found
