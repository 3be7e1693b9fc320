"""The archive as a fixed view for one round: what was there when the view was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.archive.entries import Harness
from engine.context import Context
from engine.errors import ArchiveError
from engine.records import Outcome
from engine.view import HarnessSummary

Mechanisms = Callable[[Mapping[str, bytes]], Sequence[str]]


class FixedView:
    """An ``ArchiveView`` of the harnesses of rounds before ``before``: without this round's
    siblings, and without anything of the test split. ``mechanisms`` names what a harness has;
    ``only`` narrows the view to one harness."""

    def __init__(
        self, context: Context, before: int, mechanisms: Mechanisms, only: str | None = None
    ) -> None:
        self._archive = context.archive
        self._outcomes = _outcomes(context, before)
        tip = context.archive.tip()
        incumbent = context.archive.pair(tip.incumbent).harness if tip else ""
        self._entries = tuple(
            self._summary(entry, tuple(mechanisms(entry.files)), entry.oid == incumbent)
            for entry in context.archive.harnesses(include_rejected=True)
            if entry.round < before and only in (None, entry.oid)
        )
        self._known = {entry.oid for entry in self._entries}

    def index(self) -> Sequence[HarnessSummary]:
        return self._entries

    def files(self, oid: str) -> Mapping[str, bytes]:
        if oid not in self._known:
            raise ArchiveError(f"{oid[:12]}: no harness of this round's view")
        return self._archive.harness(oid).files

    def read(self, oid: str, path: str) -> bytes:
        files = self.files(oid)
        if path not in files:
            raise ArchiveError(f"{oid[:12]}: has no file {path}")
        return files[path]

    def _summary(
        self, entry: Harness, mechanisms: tuple[str, ...], incumbent: bool
    ) -> HarnessSummary:
        measured = self._outcomes.get(entry.oid, {})
        method, best = max(measured.items(), key=lambda item: item[1].scalar, default=("", None))
        return HarnessSummary(
            oid=entry.oid,
            round=entry.round,
            slot=entry.slot,
            base=entry.base,
            subject=entry.subject,
            mechanisms=mechanisms,
            adopts=entry.adopts,
            score=best.score if best else None,
            timr=best.timr if best else None,
            scalar=best.scalar if best else None,
            checkpoint=method,
            scalars={kind: outcome.scalar for kind, outcome in measured.items()},
            rejected=entry.rejected,
            check=entry.check,
            incumbent=incumbent,
        )


def _outcomes(context: Context, before: int) -> Mapping[str, Mapping[str, Outcome]]:
    """For each harness its best outcome in earlier rounds, by the method of the checkpoint it was
    paired with."""
    methods = {c.oid: c.method for c in context.archive.checkpoints()}
    best: dict[str, dict[str, Outcome]] = {}
    for pair in (p for p in context.archive.pairs() if p.round < before):
        outcome, method = context.outcome(pair), methods[pair.checkpoint]
        known = best.setdefault(pair.harness, {}).get(method)
        if known is None or outcome.scalar > known.scalar:
            best[pair.harness][method] = outcome
    return best
