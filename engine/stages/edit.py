"""edit: K editors, each with its brief, its own choice of base, and the same fixed archive.

What they leave goes through the checks, back to its editor once with the reasons, and then into
the archive: valid ones as branches that appear together, failed ones as rejected, which are no
base but can be read.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.archive.drafts import HarnessDraft
from engine.archive.entries import Harness
from engine.archive_view import FixedView
from engine.brief import Brief, Curated, Evidence
from engine.checks import CheckResult, check
from engine.context import Context
from engine.editors import Edit, Editor, Sessions, Workshop, editor, mechanisms
from engine.errors import SandboxError
from engine.leaks import Forbidden
from engine.measurement import incumbent_today
from engine.naming import settle
from engine.observer import Bar
from engine.records import Cost, Edited, Offspring, read
from engine.view import ArchiveView
from kernel.host import WorkerPool
from kernel.sandbox import SandboxUnavailable

T = TypeVar("T")


@dataclass(frozen=True)
class _Checked:
    """An edit after the checks, and whether it took a repair."""

    brief: Brief
    edit: Edit
    result: CheckResult
    repaired: bool


async def run(context: Context) -> Edited:
    """All offspring of the round. In model-only runs the incumbent's harness stands in."""
    start = time.monotonic()
    if context.params.mode == "model-only":
        return Edited((_unchanged(context),))
    incumbent_today(context)  # as inherit asks for, before editors cost anything
    curated = read(context.record("evidence"), Curated)
    view = FixedView(context, context.opened().round, mechanisms, only=context.generation())
    try:
        async with (
            WorkerPool(sandbox=context.params.sandbox) as pool,
            _workshop(context, curated.evidence, view) as workshop,
        ):
            with context.observer.bar("editors", len(curated.briefs)) as bar:
                done = await _Round(context, view, workshop, pool, bar).develop(curated.briefs)
    except SandboxUnavailable as error:
        raise SandboxError(
            f"no sandbox works here ({error}); install bubblewrap, or set `sandbox: none`"
        ) from None
    used = sum((each.edit.cost for each in done), Cost(seconds=time.monotonic() - start))
    return Edited(tuple(_archive(context, done)), used)


def _workshop(
    context: Context, evidence: Evidence, view: ArchiveView
) -> AbstractAsyncContextManager[Workshop]:
    kind = editor(context.params.editors.kind)
    if isinstance(kind, Sessions):
        return kind.workshop(context, evidence, view)
    return _at_once(context, kind, evidence, view)


@asynccontextmanager
async def _at_once(
    context: Context, kind: Editor, evidence: Evidence, view: ArchiveView
) -> AsyncIterator[Workshop]:
    yield _AtOnce(context, kind, evidence, view)


class _AtOnce:
    """Editors that need no session, one after the other."""

    parallel = 1

    def __init__(
        self, context: Context, kind: Editor, evidence: Evidence, view: ArchiveView
    ) -> None:
        self._context, self._editor = context, kind
        self._evidence, self._view = evidence, view
        self._rng: dict[str, random.Random] = {}

    async def edit(self, brief: Brief) -> Edit:
        seed = f"{self._context.params.seed}/{self._context.opened().round}/{brief.slot}"
        rng = self._rng[brief.slot] = random.Random(seed)
        budget = self._context.params.editors.line_budget
        return self._editor.edit(brief, self._evidence, self._view, rng, budget)

    async def repair(self, edit: Edit, reasons: Sequence[str], brief: Brief) -> Edit:
        budget = self._context.params.editors.line_budget
        rng = self._rng[brief.slot]
        return self._editor.repair(edit, reasons, brief, self._view, rng, budget)


def _unchanged(context: Context) -> Offspring:
    pair = context.archive.pair(context.opened().incumbent)
    return Offspring("k0", pair.harness, "valid", pair.harness, subject="the harness is kept")


class _Round:
    """The editors of one round: the same view for all, and what no harness may hold."""

    def __init__(
        self, context: Context, view: ArchiveView, workshop: Workshop, pool: WorkerPool, bar: Bar
    ) -> None:
        self._context, self._view, self._bar = context, view, bar
        self._workshop, self._pool = workshop, pool
        self._round = context.opened().round
        self._seen: dict[str, str] = {}
        tasks = {split: context.tasks(split) for split in ("train", "validation")}
        self._forbidden = Forbidden.of_tasks(context.domain, tasks["train"], tasks["validation"])
        sample = tasks["train"][0]
        self._practice = context.domain.practice(sample, sample.instruction)

    async def develop(self, briefs: Sequence[Brief]) -> list[_Checked]:
        """Edit, check, at most one repair, check. Where editors work side by side, all edits come
        before the first check, so that what is a duplicate of what doesn't hang on their speed."""
        if self._workshop.parallel > 1:
            return await self._together(briefs)
        done: list[_Checked] = []
        for brief in briefs:
            done += await self._together([brief])
        return done

    async def _together(self, briefs: Sequence[Brief]) -> list[_Checked]:
        edits = await _all([self._workshop.edit(brief) for brief in briefs])
        first = [await self._checked(b, e) for b, e in zip(briefs, edits, strict=True)]
        others = await _all([self._mended(each) for each in first])
        done = []
        for each, other in zip(first, others, strict=True):
            again = each
            if other is not None and other != each.edit:
                again = replace(await self._checked(each.brief, other), repaired=True)
            done.append(again)
            self._bar.advance(note=again.edit.subject)
        return done

    async def _mended(self, each: _Checked) -> Edit | None:
        if each.result.ok:
            return None
        return await self._workshop.repair(each.edit, each.result.reasons, each.brief)

    async def _checked(self, brief: Brief, edit: Edit) -> _Checked:
        """What the editor's own kind refused it for, and what the checks find."""
        result = CheckResult(()) if edit.final else await self._check(edit, self._pool)
        reasons = (*edit.refused, *result.reasons)
        if edit.refused:
            result = replace(result, reasons=tuple(dict.fromkeys(reasons)))
        if result.ok:
            self._seen[self._context.archive.code_id(edit.files)] = brief.slot
        return _Checked(brief, edit, result, False)

    async def _check(self, edit: Edit, pool: WorkerPool) -> CheckResult:
        code = self._context.archive.code_id(edit.files)
        known = self._seen.get(code) or self._known(code)
        return await check(
            edit.files,
            self._view.files(edit.base),
            domain=self._context.domain,
            practice=self._practice,
            forbidden=self._forbidden,
            line_budget=self._context.params.editors.line_budget,
            duplicate_of=known,
            pool=pool,
        )

    def _known(self, code: str) -> str | None:
        """The harness of an earlier round with this code (this round's own may stand in the
        archive already, from a stage that was killed)."""
        found = self._context.archive.find_code(code)
        if found and self._context.archive.harness(found).round < self._round:
            return found
        return None


async def _all(works: Sequence[Awaitable[T]]) -> list[T]:
    """All of them, to their end, before the first one's error is raised: what finishes is kept."""
    found = await asyncio.gather(*works, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]


def _archive(context: Context, done: Sequence[_Checked]) -> list[Offspring]:
    number = context.opened().round
    own = [h for h in context.archive.harnesses(include_rejected=True) if h.round == number]
    drafts = [
        HarnessDraft(
            round=number,
            slot=_slot(each, number, {h.label: h for h in own}),
            files=each.edit.files,
            subject=each.edit.subject,
            base=each.edit.base,
            adopts=each.edit.adopts,
            editor=each.edit.editor,
            lines_added=each.result.added,
            line_budget=context.params.editors.line_budget,
            check=each.result.line,
            rejected=not each.result.ok,
            session=each.edit.transcript,
        )
        for each in done
    ]
    oids = context.archive.record_harnesses(drafts)
    return [
        replace(_offspring(each), slot=draft.slot, harness=oid)
        for each, draft, oid in zip(done, drafts, oids, strict=True)
    ]


def _slot(each: _Checked, number: int, taken: Mapping[str, Harness]) -> str:
    """The brief's slot; a successor of it where a broken-off try of this round left another
    offspring there."""
    prefix = f"r{number:03d}-"

    def same(entry: Harness) -> bool:
        alike = (entry.rejected, entry.base) == (not each.result.ok, each.edit.base)
        return alike and dict(entry.files) == dict(each.edit.files)

    return settle(prefix + each.brief.slot, taken, same).name.removeprefix(prefix)


def _offspring(each: _Checked) -> Offspring:
    reasons = each.result.reasons
    alike = bool(reasons) and all(reason.startswith("duplicate") for reason in reasons)
    return Offspring(
        slot=each.brief.slot,
        harness="",
        status="valid" if each.result.ok else "duplicate" if alike else "rejected",
        base=each.edit.base,
        adopts=tuple((adoption.oid, adoption.mechanism) for adoption in each.edit.adopts),
        editor=each.edit.editor,
        subject=each.edit.subject,
        reasons=reasons,
        repaired=each.repaired,
        remarks=each.edit.remarks,
        transcript=each.edit.transcript,
    )
