"""The archive as the Curator and the editors see it: a fixed index, and files to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.archive.drafts import Adoption
from engine.errors import ArchiveError


@dataclass(frozen=True)
class HarnessSummary:
    """One archived harness with its best measured outcome.

    ``scalar`` is the domain's objective on all of V, None where no pair of it was measured;
    ``timr`` and ``score`` belong to the same pair, ``checkpoint`` says how its weights were made
    (seed, sft, ties) and ``scalars`` holds the best of each such kind, so that a harness can be
    compared with its base under like weights.
    """

    oid: str
    round: int
    slot: str
    base: str | None
    subject: str
    mechanisms: tuple[str, ...] = ()
    adopts: tuple[Adoption, ...] = ()
    score: float | None = None
    timr: float | None = None
    scalar: float | None = None
    checkpoint: str = ""
    scalars: Mapping[str, float] = field(default_factory=dict)
    rejected: bool = False
    check: str = ""
    incumbent: bool = False

    @property
    def label(self) -> str:
        """Its short name, ``r003-k2``."""
        return f"r{self.round:03d}-{self.slot}"

    @property
    def usable(self) -> bool:
        """Whether it may be a base or be adopted from."""
        return not self.rejected


class ArchiveView(Protocol):
    """A read-only view that doesn't change while a round is edited."""

    def index(self) -> Sequence[HarnessSummary]:
        """All harnesses, oldest first, rejected ones too."""
        ...

    def files(self, oid: str) -> Mapping[str, bytes]:
        """A harness's workspace. Raises ArchiveError for an unknown oid."""
        ...

    def read(self, oid: str, path: str) -> bytes:
        """One file of it. Raises ArchiveError where there is none."""
        ...


@dataclass
class MemoryView:
    """A view of harnesses held in memory."""

    entries: Sequence[HarnessSummary]
    workspaces: Mapping[str, Mapping[str, bytes]]

    def index(self) -> Sequence[HarnessSummary]:
        return self.entries

    def files(self, oid: str) -> Mapping[str, bytes]:
        try:
            return self.workspaces[oid]
        except KeyError:
            raise ArchiveError(f"{oid}: no archived harness") from None

    def read(self, oid: str, path: str) -> bytes:
        files = self.files(oid)
        if path not in files:
            raise ArchiveError(f"{oid}: has no file {path}")
        return files[path]


def find(name: str, entries: Sequence[HarnessSummary]) -> HarnessSummary | None:
    """The harness that a label, a branch's name, a hash or at least seven characters of one stands
    for."""
    wanted = name.strip().lower().removeprefix("harness/").removeprefix("rejected/")
    exact = [entry for entry in entries if wanted in (entry.label.lower(), entry.oid)]
    alike = [entry for entry in entries if len(wanted) > 6 and entry.oid.startswith(wanted)]
    return next(iter(exact or (alike if len(alike) == 1 else [])), None)


def gain(entry: HarnessSummary, entries: Mapping[str, HarnessSummary]) -> float | None:
    """How much a harness improved on its base under the same kind of checkpoint; None where the
    two were never measured alike."""
    base = entries.get(entry.base or "")
    if base is None:
        return None
    shared = sorted(set(entry.scalars) & set(base.scalars))
    if not shared:
        return None
    return max(entry.scalars[kind] - base.scalars[kind] for kind in shared)
