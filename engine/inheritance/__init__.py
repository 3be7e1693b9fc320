"""Model inheritance: which checkpoints, selected or merged, an offspring is paired with.

A policy proposes mixtures α over archived checkpoints (α_j ≥ 0, Σα = 1; one-hot is selection,
several are a TIES merge). The table takes a name or a dotted path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from engine.llm.dialogue import Asked
from engine.seams import find


@dataclass(frozen=True)
class CheckpointFact:
    """What a policy knows of an archived checkpoint: ``alpha`` are the weights of its sources,
    ``trained_under`` is a harness, ``settings`` how it was merged (density, normalize, lambda)."""

    oid: str
    round: int
    method: str
    sources: tuple[str, ...]
    label: str = ""
    alpha: tuple[float, ...] = ()
    trained_under: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PairFact:
    """A measured pair: a checkpoint's outcome in its own harness context."""

    harness: str
    checkpoint: str
    round: int
    scalar: float
    timr: float | None


@dataclass(frozen=True)
class HarnessFact:
    """A harness that a checkpoint was measured or trained under, or an offspring."""

    oid: str
    label: str
    subject: str
    base: str | None = None
    adopts: tuple[str, ...] = ()


@dataclass(frozen=True)
class History:
    """The archive as model inheritance reads it; ``incumbent`` is p_t."""

    checkpoints: tuple[CheckpointFact, ...]
    pairs: tuple[PairFact, ...]
    incumbent: PairFact
    harnesses: tuple[HarnessFact, ...] = ()


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


@dataclass(frozen=True)
class Terms:
    """What an offspring's proposals are held to: how many, ``merges`` of them mixtures of several
    checkpoints; TIES' settings where none are named; the model's context in tokens."""

    proposals: int
    merges: int
    density: float = 0.5
    normalize: bool = True
    context: int = 128_000


@dataclass(frozen=True)
class Trial:
    """What came of a proposal: why it was refused, or its pair's outcome on ``tasks`` of V and the
    incumbent's score on the same tasks."""

    refused: str = ""
    tasks: int = 0
    score: float = 0.0
    scalar: float = 0.0
    timr: float | None = None
    incumbent: float = 0.0


@dataclass(frozen=True)
class Decision:
    """One step of a policy's for one offspring: what it did, and what came of it, shortened."""

    slot: str
    action: str  # read | propose | stop
    target: str
    result: str


@dataclass(frozen=True)
class Decided:
    """All that a policy did for an offspring. ``notice`` says why another one took over."""

    decisions: tuple[Decision, ...] = ()
    notice: str = ""


@runtime_checkable
class AskingPolicy(Protocol):
    """Proposes step by step, by a language model; measuring and choosing are the stage's."""

    async def ask(
        self,
        llm: Asked,
        history: History,
        heir: HarnessFact,
        terms: Terms,
        attempt: Callable[[Proposal], Awaitable[Trial]],
        slot: str,
    ) -> Decided:
        """``attempt`` proposals for the offspring ``heir`` of slot ``slot``, each after what came
        of the last ones. Where the model answers nonsense, the embedded policy goes on, with a
        notice. Raises ModelError and BudgetSpent."""
        ...


POLICIES = {
    "embedded": "engine.inheritance.embedded:EmbeddedPolicy",
    "llm": "engine.inheritance.llm:LLMPolicy",
    "seed-only": "engine.inheritance.restricted:SeedOnly",
    "latest-only": "engine.inheritance.restricted:LatestOnly",
    "parent-branch": "engine.inheritance.restricted:ParentBranch",
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


def policy(name: str) -> InheritancePolicy | AskingPolicy:
    """The policy called ``name``, or at ``module:Class``. Raises ConfigError if unknown."""
    made: InheritancePolicy | AskingPolicy = find("inheritance.kind", name, POLICIES)()
    return made


def merger(name: str) -> Merger:
    """The merger called ``name``, or at ``module:function``. Raises ConfigError if unknown."""
    found: Merger = find("inheritance.merger", name, MERGERS)
    return found
