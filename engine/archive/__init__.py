"""The archive: one git repository that holds every harness, checkpoint, pair and round of a run."""

from engine.archive.archive import Archive
from engine.archive.drafts import (
    Adoption,
    CheckpointDraft,
    HarnessDraft,
    PairDraft,
    RoundDraft,
)
from engine.archive.entries import (
    Audit,
    Checkpoint,
    Entry,
    Evaluation,
    Harness,
    Pair,
    Round,
    TestResult,
)
from engine.archive.recover import Recovered
from engine.archive.resolve import Found

__all__ = [
    "Adoption",
    "Archive",
    "Audit",
    "Checkpoint",
    "CheckpointDraft",
    "Entry",
    "Evaluation",
    "Found",
    "Harness",
    "HarnessDraft",
    "Pair",
    "PairDraft",
    "Recovered",
    "Round",
    "RoundDraft",
    "TestResult",
]
