"""edit: K editors, each with its brief, its own choice of base, and the same fixed archive.

What they leave goes through the checks, back to its editor once with the reasons, and then into
the archive: valid ones as branches that appear together, failed ones as rejected, which are no
base but can be read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.archive.drafts import HarnessDraft
from engine.archive.entries import Harness
from engine.archive_view import FixedView
from engine.brief import Brief, Curated
from engine.checks import CheckResult, check
from engine.context import Context
from engine.editors import Edit, Editor, editor, mechanisms
from engine.errors import SandboxError
from engine.leaks import Forbidden
from engine.naming import settle
from engine.records import Cost, Edited, Offspring, read
from kernel.host import WorkerPool
from kernel.sandbox import SandboxUnavailable


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
    curated = read(context.record("evidence"), Curated)
    session = _Session(context, curated)
    try:
        async with WorkerPool(sandbox=context.params.sandbox) as pool:
            with context.observer.bar("editors", len(curated.briefs)) as bar:
                done = []
                for brief in curated.briefs:
                    done.append(await session.develop(brief, pool))
                    bar.advance(note=done[-1].edit.subject)
    except SandboxUnavailable as error:
        raise SandboxError(
            f"no sandbox works here ({error}); install bubblewrap, or set `sandbox: none`"
        ) from None
    seconds = time.monotonic() - start
    return Edited(tuple(_archive(context, done)), Cost(seconds=seconds))


def _unchanged(context: Context) -> Offspring:
    pair = context.archive.pair(context.opened().incumbent)
    return Offspring("k0", pair.harness, "valid", pair.harness, subject="the harness is kept")


class _Session:
    """The editors of one round: the same view for all, and what no harness may hold."""

    def __init__(self, context: Context, curated: Curated) -> None:
        self._context, self._curated = context, curated
        self._round = context.opened().round
        self._view = FixedView(context, self._round, mechanisms, only=context.generation())
        self._editor: Editor = editor(context.params.editors.kind)
        self._seen: dict[str, str] = {}
        tasks = {split: context.tasks(split) for split in ("train", "validation")}
        self._forbidden = Forbidden.of_tasks(context.domain, tasks["train"], tasks["validation"])
        sample = tasks["train"][0]
        self._practice = context.domain.practice(sample, sample.instruction)

    async def develop(self, brief: Brief, pool: WorkerPool) -> _Checked:
        """One editor's work: edit, check, at most one repair, check."""
        budget = self._context.params.editors.line_budget
        rng = random.Random(f"{self._context.params.seed}/{self._round}/{brief.slot}")
        edit = self._editor.edit(brief, self._curated.evidence, self._view, rng, budget)
        result = await self._check(edit, pool)
        repaired = False
        if not result.ok:
            other = self._editor.repair(edit, result.reasons, brief, self._view, rng, budget)
            repaired = other != edit
            edit = other
        if repaired:
            result = await self._check(edit, pool)
        if result.ok:
            self._seen[self._context.archive.code_id(edit.files)] = brief.slot
        return _Checked(brief, edit, result, repaired)

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
    )
