"""Keeping what an audit found, and what is left of an outcome then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from engine.archive.drafts import AuditDraft
from engine.audit import record as records
from engine.audit.record import CARRIED, Flag, Record, Verdict
from engine.audit.subject import Audited, Subject, entries, load
from engine.context import Context
from engine.domains import Task
from engine.errors import ArchiveError
from engine.evaluation.keys import digest
from engine.evaluation.outcome import measured
from engine.measurement import as_json
from engine.records import Outcome, Rollout, adapter
from engine.self_evolution.draw import apart

FAILURE = "cheating"


@dataclass(frozen=True)
class Standing:
    """The audit that stands of one measurement; ``commit`` is None before it is kept."""

    kind: str
    entry: Audited
    record: Record
    commit: str | None = None


def standing(context: Context, kind: str, entry: Audited) -> Standing | None:
    """What the archive holds of an audit of ``entry``."""
    found = context.archive.audit(entry.oid)
    if found is None:
        return None
    return Standing(kind, entry, records.from_json(found.record), found.oid)


def all_standing(context: Context) -> list[Standing]:
    """Of everything that was ever audited."""
    every = (standing(context, kind, entry) for kind, entry in entries(context))
    return [each for each in every if each is not None]


def flagged(context: Context, text: str) -> tuple[Standing, Flag]:
    """The flag that an id, or the beginning of one, stands for. Raises ArchiveError."""
    found = [
        (each, flag)
        for each in all_standing(context)
        for flag in each.record.flags
        if flag.id.startswith(text.strip().lower())
    ]
    if len(found) == 1 and len(text.strip()) >= 4:
        return found[0]
    what = "stands for several flags" if len(found) > 1 else "is no flag"
    raise ArchiveError(f"{text!r} {what}; `coevo audit list` gives the ids")


def confirmed(context: Context) -> frozenset[str]:
    """The digests of all confirmed trajectories: wherever such a rollout stands, it scores 0."""
    return frozenset(
        flag.trajectory
        for each in all_standing(context)
        for flag in each.record.with_status("confirmed")
    )


def carried(record: Record, cheats: Set[str], now: int) -> Record:
    """With what was confirmed of the same rollouts elsewhere; a word said here stays."""
    new = (
        Verdict(flag.id, True, CARRIED, "the same rollout was confirmed before", now)
        for flag in record.flags
        if flag.trajectory in cheats and record.verdict(flag.id) is None
    )
    return record.judged(*new)


def keep(context: Context, before: Standing | None, subject: Subject, record: Record,
         tasks: Mapping[str, Task]) -> str:  # fmt: skip
    """The audit's commit; the one there is where nothing is new."""
    if before is not None and before.record == record and before.commit:
        return before.commit
    counts = record.counts
    outcome = left(context, subject, record, tasks) if counts["confirmed"] else None
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    oid = context.archive.record_audit(
        AuditDraft(
            of=subject.entry.oid,
            record=record.to_json(),
            outcome=as_json(outcome) if outcome is not None else None,
            counts=counts,
            subject=f"Audit {subject.name}: {said or 'nothing flagged'}",
        ),
        expected=before.commit if before else None,
    )
    context.archive.notes_rebuild()
    return oid


def left(context: Context, subject: Subject, record: Record, tasks: Mapping[str, Task]) -> Outcome:
    """The recorded outcome with confirmed rollouts at score 0: scores, metrics and objective anew,
    all else as it was measured."""
    cheats = {flag.trajectory for flag in record.with_status("confirmed")}
    rollouts = []
    for kept in subject.rollouts:
        if kept.task not in tasks:
            raise ArchiveError(
                f"{subject.name}: its task {kept.task} is in no frozen split of this run, so its "
                "score can't be set anew"
            )
        task = tasks[kept.task]
        verdict = context.domain.verify(task, kept.trajectory.answer)
        rollout = Rollout(kept.task, task, kept.trajectory, verdict)
        rollouts.append(nothing(context, rollout) if kept.digest in cheats else rollout)
    old: Outcome = adapter(Outcome).validate_python(dict(subject.entry.outcome))
    setting = {"split": old.split, **old.setting}
    new = apart(context, measured(context.domain, [*map(_counted, rollouts)], (), setting))
    return replace(new, eval_key=old.eval_key, cost=old.cost, setting=old.setting)


def nothing(context: Context, rollout: Rollout) -> Rollout:
    """A confirmed rollout as it counts: the score of an empty answer, 0 whatever that is."""
    empty = context.domain.verify(rollout.task, None)
    return replace(rollout, verdict=replace(empty, score=0.0, accepted=False, failure=FAILURE))


def as_they_count(context: Context, rollouts: Sequence[Rollout], cheats: Set[str]) -> list[Rollout]:
    """Rollouts of any measurement, those that were confirmed (``confirmed``) at score 0."""
    return [
        nothing(context, each) if digest(each.trajectory.to_json()) in cheats else each
        for each in rollouts
    ]


def _counted(rollout: Rollout) -> Rollout:
    turns = {"turns": float(rollout.trajectory.turns)}
    verdict = replace(rollout.verdict, counts={**rollout.verdict.counts, **turns})
    return replace(rollout, verdict=verdict)


def reread(context: Context, each: Standing) -> Subject:
    """The measurement that an audit speaks of, with its rollouts."""
    return load(context, each.kind, each.entry)
