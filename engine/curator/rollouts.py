"""The archive's view with each measured harness's failed rollouts as one more file to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from engine.archive.entries import Pair
from engine.context import Context
from engine.editors.sessions.rollouts import summary
from engine.errors import ArchiveError
from engine.view import ArchiveView, HarnessSummary

FILE = "rollouts.md"


class WithRollouts:
    """``view``, where a harness that was measured before round ``before`` has a ``rollouts.md``:
    the failed rollouts of its best pair, in short. Those that succeeded are left out, since the
    answer that a verifier accepts is the reference answer."""

    def __init__(self, view: ArchiveView, context: Context, before: int) -> None:
        self._view, self._context = view, context
        self._pairs: dict[str, Pair] = {}
        for pair in context.archive.pairs():
            known = self._pairs.get(pair.harness)
            if pair.round < before and (known is None or self._better(pair, known)):
                self._pairs[pair.harness] = pair

    def index(self) -> Sequence[HarnessSummary]:
        return self._view.index()

    def files(self, oid: str) -> Mapping[str, bytes]:
        files = dict(self._view.files(oid))
        return files | {FILE: self.read(oid, FILE)} if oid in self._pairs else files

    def read(self, oid: str, path: str) -> bytes:
        if path != FILE:
            return self._view.read(oid, path)
        self._view.files(oid)  # raises where the view doesn't hold it
        if oid not in self._pairs:
            raise ArchiveError(f"{oid[:12]}: was never measured, so it has no {FILE}")
        return "\n\n".join(_failed(summary(self._context, self._pairs[oid]))).encode()

    def _better(self, one: Pair, other: Pair) -> bool:
        return self._context.outcome(one).scalar > self._context.outcome(other).scalar


def _failed(text: str) -> Iterator[str]:
    first, *parts = f"\n{text.strip()}".split("\n## ")
    rollouts = [part.strip() for part in parts]
    failed = [part for part in rollouts if ": score 1," not in part.partition("\n")[0]]
    if first.strip():  # why there is none
        yield first.strip()
    else:
        yield f"{len(rollouts)} rollouts, {len(rollouts) - len(failed)} of them right; the others:"
    yield from (f"## {part}" for part in failed)
