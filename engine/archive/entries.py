"""What is read back from the archive: one frozen record for each kind of commit.

``files`` are read from git when they are looked at, so that listing an archive stays cheap.
``ref`` is the name as git shows it, ``label`` the short one (``r003-k2``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.archive.drafts import Adoption


@dataclass(frozen=True)
class Entry:
    """What every archived commit has. ``time`` is in seconds since the epoch."""

    oid: str
    ref: str
    label: str
    round: int
    slot: str
    subject: str
    tree: str
    time: int
    files: Mapping[str, bytes] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Harness(Entry):
    """A harness. ``code_id`` is the identity of its code: the tree without notes and report;
    ``session`` is the .dvc text of its editor's transcripts, '' where there are none."""

    base: str | None
    adopts: tuple[Adoption, ...]
    editor: str
    lines_added: int
    line_budget: int | None
    check: str
    rejected: bool
    duplicate_of: str | None
    code_id: str
    session: str = ""


@dataclass(frozen=True)
class Checkpoint(Entry):
    """A checkpoint. ``weights`` is its digest, ``dvc`` the text of checkpoint.dvc."""

    method: str
    sources: tuple[str, ...]
    alpha: tuple[float, ...]
    trained_under: str | None
    weights: str
    dvc: str = field(repr=False)
    provenance: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Pair(Entry):
    """A measured pair. ``score``, ``timr`` and ``metrics`` come from ``outcome``."""

    harness: str
    checkpoint: str
    split: str
    eval_key: str
    score: float | None
    timr: float | None
    metrics: Mapping[str, float]
    outcome: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Round(Entry):
    """A finished round. ``others`` are the offspring and checkpoints that no pair holds."""

    parent: str | None
    incumbent: str
    promoted: bool
    gain: float | None
    pairs: tuple[str, ...]
    others: tuple[str, ...]
    costs: Mapping[str, float]


@dataclass(frozen=True)
class TestResult(Entry):
    """One use of the test split."""

    __test__ = False  # not a pytest class

    pair: str
    score: float | None
    eval_key: str
    outcome: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Evaluation(Entry):
    """A frozen version measured on a split outside the rounds. ``agent`` names an outside agent
    that was measured beside the pair, '' for the pair itself; ``report`` has figures by family."""

    pair: str
    agent: str
    split: str
    score: float | None
    eval_key: str
    outcome: Mapping[str, Any] = field(repr=False)
    report: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Audit(Entry):
    """What an audit found in the rollouts of one pair, test or evaluation (``of``). The newest one
    stands; ``previous`` leads to those before. ``outcome`` is ``of``'s with confirmed rollouts at
    score 0, None where none is confirmed."""

    of: str
    previous: str | None
    record: Mapping[str, Any] = field(repr=False)
    outcome: Mapping[str, Any] | None = field(repr=False)
