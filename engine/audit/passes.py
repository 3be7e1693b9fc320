"""The two passes over a run: the script's scan, then a model's or a person's verdicts."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from dataclasses import replace

from engine.audit import standing as keeping
from engine.audit import subject as subjects
from engine.audit.judge import ROLE, judge
from engine.audit.record import CARRIED, MODEL, PERSON, Flag, Record, Verdict
from engine.audit.scan import flag, scanner
from engine.audit.standing import Standing
from engine.audit.subject import Audited
from engine.context import Context
from engine.llm.dialogue import GivenUp
from engine.llm.role import role_endpoint, role_model


def scan(context: Context, wanted: Sequence[tuple[str, Audited]]) -> list[Standing]:
    """Scan measurements and keep what was found. Flags of an earlier scan that the rules no longer
    make stay where a verdict was given on them, so that nothing said is lost."""
    tasks = subjects.tasks(context)
    looking, cheats = scanner(context, tasks), keeping.confirmed(context)
    done = []
    with context.observer.bar("audit", len(wanted)) as bar:
        for kind, entry in wanted:
            subject = subjects.load(context, kind, entry)
            before = keeping.standing(context, kind, entry)
            record = Record(len(subject.rollouts), looking.flags(subject))
            if before is not None:
                record = _merged(before.record, record)
            record = keeping.carried(_with_known(record, subject, cheats), cheats, _now())
            oid = keeping.keep(context, before, subject, record, tasks)
            done.append(Standing(kind, entry, record, oid))
            bar.advance(note=f"{len(record.flags)} flagged")
    return done


def _merged(old: Record, new: Record) -> Record:
    fresh = {flag.id for flag in new.flags}
    judged = {verdict.flag for verdict in old.verdicts}
    kept = tuple(f for f in old.flags if f.id in judged and f.id not in fresh)
    return Record(new.scanned, (*new.flags, *kept), old.verdicts)


def _with_known(record: Record, subject: subjects.Subject, cheats: Set[str]) -> Record:
    """With a flag on every rollout that was confirmed elsewhere."""
    known = {each.trajectory for each in record.flags}
    more = (k for k in subject.rollouts if k.digest in cheats and k.digest not in known)
    return replace(record, flags=(*record.flags, *(flag(subject, kept, ()) for kept in more)))


def _now() -> int:
    return int(time.time())


def settle(context: Context, flag_id: str, confirmed: bool, reason: str) -> tuple[Standing, Flag]:
    """A person's verdict on one flag. Raises ArchiveError for an unknown id."""
    each, found = keeping.flagged(context, flag_id)
    settled = _add(context, each, Verdict(found.id, confirmed, PERSON, reason, _now()))
    return settled, found


async def ask(context: Context, every: Sequence[Standing]) -> list[str]:
    """A model's verdict on each open flag, each kept as it comes; the flags for which it gave
    none, with why. Raises ConfigError, ModelError or BudgetSpent."""
    tip = context.archive.tip()
    by = f"{MODEL} {role_endpoint(context.params, ROLE).model}"
    total = sum(len(each.record.with_status("open")) for each in every)
    trouble: list[str] = []
    with (
        role_model(context.root, context.params, ROLE, tip.round if tip else 0) as llm,
        context.observer.bar("second pass", total) as bar,
    ):
        tasks = subjects.tasks(context)
        for each in every:
            still, kept = each, {k.digest: k for k in keeping.reread(context, each).rollouts}
            for open_ in each.record.with_status("open"):
                task, limit = tasks.get(open_.task), context.params.llm.context
                try:
                    said = await judge(llm, open_, kept[open_.trajectory], task, limit)
                except GivenUp as error:
                    trouble.append(f"{open_.id}: no verdict ({error})")
                else:
                    verdict = Verdict(open_.id, said.confirmed, by, said.reason, _now())
                    still = _add(context, still, verdict)
                bar.advance()
    return trouble


def _add(context: Context, each: Standing, verdict: Verdict) -> Standing:
    """Keep a verdict, and carry it to the same rollout in other measurements."""
    done = _keep(context, each, each.record.judged(verdict))
    trajectory = next(f.trajectory for f in each.record.flags if f.id == verdict.flag)
    for other in keeping.all_standing(context):
        same = [f for f in other.record.flags if f.trajectory == trajectory]
        if other.entry.oid != each.entry.oid and same:
            carried = replace(verdict, flag=same[0].id, by=f"{CARRIED} from {verdict.flag}")
            _keep(context, other, other.record.judged(carried))
    return done


def _keep(context: Context, each: Standing, record: Record) -> Standing:
    subject = keeping.reread(context, each)
    oid = keeping.keep(context, each, subject, record, subjects.tasks(context))
    return replace(each, record=record, commit=oid)
