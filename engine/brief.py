"""What the Curator hands to the editors: evidence e_t and hypotheses b_{t,1:K} (paper eq. 8)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.diagnosis import FailureClass


@dataclass(frozen=True)
class Inspection:
    """One step of the Curator's retrieval: the action it took, and what came back, shortened."""

    action: str  # index | read | stop
    target: str
    result: str


@dataclass(frozen=True)
class Brief:
    """One editor's modification hypothesis.

    ``kind`` is ``address`` (a failure class), ``vary`` (a parameter of what works) or ``recombine``
    (the best designs of several harnesses). ``mechanisms`` and ``base`` are hints: the editor
    chooses for itself.
    """

    slot: str
    kind: str
    hypothesis: str
    failure: str
    mechanisms: tuple[str, ...]
    base: str | None = None


@dataclass(frozen=True)
class Evidence:
    """e_t: the diagnosis in words with what the archive says of it, within the context budget."""

    text: str
    inspections: tuple[Inspection, ...]


@dataclass(frozen=True)
class Curated:
    """All that the Curator wrote in a round. ``classes`` are failure classes of its own, ``notice``
    says why a Curator other than the one asked for wrote this."""

    evidence: Evidence
    briefs: tuple[Brief, ...]
    classes: tuple[FailureClass, ...] = ()
    notice: str = ""
