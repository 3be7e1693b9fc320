"""What an audit keeps of one pair, test or evaluation: flags, and every verdict on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.audit.rules import Finding
from engine.records import adapter

SCHEMA = 1
PERSON, MODEL, CARRIED = "person", "model", "carried"


@dataclass(frozen=True)
class Flag:
    """A flagged trajectory. ``id`` is its name for people, ``task`` the opaque task id,
    ``trajectory`` a digest of the record itself: the same rollout may stand in several outcomes."""

    id: str
    task: str
    execution: int
    score: float
    trajectory: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Verdict:
    """One word on a flag. ``by`` is ``person``, ``model NAME`` or ``carried`` (confirmed where the
    same rollout was measured before); ``at`` in seconds since the epoch."""

    flag: str
    confirmed: bool
    by: str
    reason: str
    at: int

    @property
    def rank(self) -> int:
        """A person's word stands over a model's, and both over what was carried."""
        return (CARRIED, MODEL, PERSON).index(self.by.split()[0])


@dataclass(frozen=True)
class Record:
    """All of one audit. Verdicts are only ever added."""

    scanned: int
    flags: tuple[Flag, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    schema: int = SCHEMA

    def verdict(self, flag: str) -> Verdict | None:
        """The one that stands: the newest of the highest rank."""
        own = [verdict for verdict in self.verdicts if verdict.flag == flag]
        return max(reversed(own), key=lambda verdict: verdict.rank) if own else None

    def status(self, flag: str) -> str:
        """``open``, ``confirmed`` or ``rejected``."""
        found = self.verdict(flag)
        return "open" if found is None else "confirmed" if found.confirmed else "rejected"

    def with_status(self, status: str) -> tuple[Flag, ...]:
        return tuple(flag for flag in self.flags if self.status(flag.id) == status)

    def judged(self, *verdicts: Verdict) -> Record:
        return replace(self, verdicts=(*self.verdicts, *verdicts))

    @property
    def counts(self) -> dict[str, int]:
        """Of its flags, for the commit's trailers."""
        named = {s: len(self.with_status(s)) for s in ("confirmed", "rejected", "open")}
        return {"flagged": len(self.flags), **named}

    def to_json(self) -> Mapping[str, Any]:
        body: Mapping[str, Any] = adapter(Record).dump_python(self, mode="json")
        return body


def from_json(body: Mapping[str, Any]) -> Record:
    """The record of an audit's commit."""
    record: Record = adapter(Record).validate_python(dict(body))
    return record
