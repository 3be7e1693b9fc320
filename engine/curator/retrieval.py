"""Reading the archive step by step (paper eq. 7): each action follows from what was seen so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.brief import Inspection
from engine.errors import ArchiveError
from engine.view import ArchiveView, HarnessSummary, gain

REPORT = "evolution_report.md"
HARNESS = "harness.py"
_SHOWN = 600


@dataclass
class History:
    """r_cur: the inspections made, and what they returned in full."""

    entries: Sequence[HarnessSummary] = ()
    files: dict[tuple[str, str], str] = field(default_factory=dict)
    inspections: list[Inspection] = field(default_factory=list)

    @property
    def incumbent(self) -> HarnessSummary | None:
        """The title holder; where none is marked, the best measured harness."""
        marked = [entry for entry in self.entries if entry.incumbent]
        measured = [entry for entry in self.entries if entry.scalar is not None]
        best = sorted(measured, key=lambda entry: entry.scalar or 0.0)[-1:]
        return next(iter(marked or best), None)


def retrieve(view: ArchiveView, budget: int) -> History:
    """Index first, then read on until nothing tells more or the budget is used up."""
    history = History()
    if budget < 1:
        return history
    history.entries = tuple(view.index())
    history.inspections.append(Inspection("index", "harnesses", f"{len(history.entries)} entries"))
    for oid, path in _wanted(history):
        if len(history.inspections) >= budget:
            break
        try:
            text = view.read(oid, path).decode("utf-8", "replace")
        except ArchiveError:
            text = ""
        history.files[(oid, path)] = text
        history.inspections.append(
            Inspection("read", f"{oid[:12]}:{path}", text[:_SHOWN] or "(not there)")
        )
    return history


def _wanted(history: History) -> Iterator[tuple[str, str]]:
    """The incumbent's code and report; then reports where most can be learnt: the best designs,
    the largest gains and losses, the newest rejections."""
    by_oid = {entry.oid: entry for entry in history.entries}
    incumbent = history.incumbent
    if incumbent is not None:
        yield incumbent.oid, HARNESS
    order = [] if incumbent is None else [incumbent]
    measured = [entry for entry in history.entries if entry.scalar is not None]
    order += sorted(measured, key=lambda entry: -(entry.scalar or 0.0))[:6]
    gains = [(gain(entry, by_oid), entry) for entry in measured]
    order += [e for g, e in sorted(gains, key=lambda item: -abs(item[0] or 0.0)) if g is not None]
    order += [entry for entry in reversed(history.entries) if entry.rejected][:4]
    for oid in dict.fromkeys(entry.oid for entry in order):
        yield oid, REPORT
