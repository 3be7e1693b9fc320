"""What the stages hand to the archive: one frozen draft for each kind of commit.

Object ids are full hex strings. Files map POSIX paths to bytes. Nothing here is written yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Adoption:
    """A design that an editor reused: the harness it stands in, and what it is called."""

    oid: str
    mechanism: str


@dataclass(frozen=True)
class HarnessDraft:
    """A harness: the seed (no base) or an offspring.

    ``check`` says what the checks found (``passed``, or the reason); ``rejected`` ones are kept
    but can't be a base. ``duplicate_of`` may be left None: the archive fills it in when the same
    code is archived already. ``session`` is the .dvc text of the editor's transcripts.
    """

    round: int
    slot: str
    files: Mapping[str, bytes]
    subject: str
    base: str | None = None
    adopts: tuple[Adoption, ...] = ()
    editor: str = ""
    lines_added: int = 0
    line_budget: int | None = None
    check: str = "passed"
    rejected: bool = False
    duplicate_of: str | None = None
    session: str = ""


@dataclass(frozen=True)
class CheckpointDraft:
    """A checkpoint: ``seed`` (no source), ``sft`` (one) or ``ties`` (several, ``alpha`` each).

    ``weights`` is the digest of the files, ``dvc`` the text of checkpoint.dvc, ``card`` the model
    card; ``provenance`` is JSON-able. The weights themselves never enter git.
    """

    name: str
    round: int
    method: str
    weights: str
    dvc: str
    provenance: Mapping[str, Any]
    card: str
    subject: str
    sources: tuple[str, ...] = ()
    alpha: tuple[float, ...] = ()
    trained_under: str | None = None


@dataclass(frozen=True)
class PairDraft:
    """A measured pair. ``outcome`` is JSON-able: score, metrics, timr, n, n_eval, by_task, ..."""

    name: str
    round: int
    harness: str
    checkpoint: str
    outcome: Mapping[str, Any]
    rollouts_dvc: str
    split: str
    eval_key: str
    subject: str


@dataclass(frozen=True)
class RoundDraft:
    """The end of a round. ``incumbent`` is a pair; ``files`` join its tree (round.json, ...).

    What the round archived and neither ``pairs`` nor ``others`` names is added by the archive, so
    that the evolution branch always reaches everything.
    """

    round: int
    incumbent: str
    promoted: bool
    subject: str
    gain: float | None = None
    pairs: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TestDraft:
    """One use of the test split on a pair. Kept apart: no round ever reads it."""

    __test__ = False  # not a pytest class

    pair: str
    outcome: Mapping[str, Any]
    subject: str
    rollouts_dvc: str = ""
    eval_key: str = ""


@dataclass(frozen=True)
class EvaluationDraft:
    """A version measured outside the rounds: the pair, or an outside ``agent`` beside it."""

    pair: str
    agent: str
    outcome: Mapping[str, Any]
    report: Mapping[str, Any]
    rollouts_dvc: str
    eval_key: str
    subject: str


@dataclass(frozen=True)
class AuditDraft:
    """The standing of an audit: ``of`` is the pair, test or evaluation whose rollouts were read,
    ``record`` its flags and verdicts, ``outcome`` what is left where a flag is confirmed.
    ``counts`` (flagged, confirmed, rejected) become trailers."""

    of: str
    record: Mapping[str, Any]
    outcome: Mapping[str, Any] | None
    counts: Mapping[str, int]
    subject: str
