"""Model inheritance: which checkpoints, selected or merged, an offspring is paired with.

A policy proposes mixtures α over archived checkpoints (α_j ≥ 0, Σα = 1; one-hot is selection,
several are a TIES merge). The table takes a name or a dotted path.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.errors import ConfigError


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

    ``normalize`` and ``density`` configure TIES and mean nothing for a one-hot α.
    """

    alpha: Mapping[str, float]
    why: str
    density: float = 1.0
    normalize: bool = True

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


def policy(name: str) -> InheritancePolicy:
    """The policy called ``name`` (or at ``module:Class``). Raises ConfigError for an unknown one."""
    path = POLICIES.get(name, name)
    if ":" not in path:
        raise ConfigError(
            f"params.yaml: inheritance.kind: unknown policy {name!r}; known: "
            f"{', '.join(sorted(POLICIES))}, or module:Class"
        )
    module, _, attribute = path.partition(":")
    try:
        made: InheritancePolicy = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"params.yaml: inheritance.kind: {path}: {error}") from None
    return made
