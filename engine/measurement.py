"""Measuring a pair on V, or on a batch, and archiving what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.archive.drafts import PairDraft
from engine.context import Context
from engine.errors import ConfigError
from engine.evaluation.keys import changed
from engine.evaluation.outcome import measured
from engine.evaluation.scheduler import Job, Scheduler
from engine.naming import settle
from engine.records import Outcome, Rollout, adapter, write_bytes
from engine.self_evolution import draw


def jobs_for(
    context: Context, harness: str, checkpoint: str, split: str, part: int | None = None
) -> list[Job]:
    """The rollouts of a pair on a split, or on its first ``part`` tasks."""
    agent = context.agent(harness, checkpoint)
    tasks = context.tasks(split)[:part]
    return [
        Job(agent, task, execution)
        for task in tasks
        for execution in range(context.params.executions)
    ]


async def evaluate(
    context: Context,
    scheduler: Scheduler,
    pairs: Sequence[tuple[str, str]],
    split: str,
    title: str,
    part: int | None = None,
) -> list[tuple[Outcome, list[Rollout]]]:
    """Outcomes of (harness, checkpoint) pairs, in order; one batch, so that checkpoints are
    loaded once each."""
    setting, recorded = context.setting(split), todays_setting(context, split)
    batches = [jobs_for(context, h, c, split, part) for h, c in pairs]
    flat = [job for batch in batches for job in batch]
    rollouts = await scheduler.many(flat, setting, title)
    keys = scheduler.keys(flat, setting)
    results, start = [], 0
    for batch in batches:
        end = start + len(batch)
        outcome = measured(context.domain, rollouts[start:end], keys[start:end], recorded)
        results.append((draw.apart(context, outcome), rollouts[start:end]))
        start = end
    return results


def archived_pair(
    context: Context, harness: str, checkpoint: str, split: str = "validation"
) -> str | None:
    """The pair commit of this harness and checkpoint, measured on all of the split in today's
    setting, if there is one."""
    setting = todays_setting(context, split)
    for pair in context.archive.pairs(harness=harness, checkpoint=checkpoint):
        if context.outcome(pair).setting == setting:
            return pair.oid
    return None


def todays_setting(context: Context, split: str = "validation") -> Mapping[str, Any]:
    """The setting that outcomes measured now record."""
    return context.setting(split).recorded(context.params.executions, context.params.seed)


def incumbent_today(context: Context) -> str:
    """The incumbent as a pair measured in today's setting: the one that holds the title, or what
    ``observe`` archived of it after the setting had changed.

    Raises ConfigError where the setting changed since ``observe``, naming the parameters.
    """
    title = context.archive.pair(context.opened().incumbent)
    recorded, today = context.outcome(title).setting, todays_setting(context)
    if recorded == today:
        return title.oid
    found = archived_pair(context, title.harness, title.checkpoint)
    if found is None:
        raise ConfigError(
            f"{', '.join(changed(recorded, today))} changed since {title.label} was measured; "
            "`dvc repro --force` measures it again, or restore what it was in params.yaml"
        )
    return found


async def measure(
    context: Context,
    scheduler: Scheduler,
    round_number: int,
    named: Mapping[str, tuple[str, str]],
    title: str,
) -> dict[str, str]:
    """Measure pairs on all of what the round measures on (V, or a batch) and archive each; name as
    given -> pair commit. A pair that is archived is not measured again, unless that was in another
    setting."""
    split = context.measured_on(round_number)
    done: dict[str, str] = {}
    for name, (harness, checkpoint) in named.items():
        known = archived_pair(context, harness, checkpoint, split)
        if known:
            done[name] = known
    todo = [name for name in named if name not in done]
    results = await evaluate(context, scheduler, [named[name] for name in todo], split, title)
    for name, (outcome, rollouts) in zip(todo, results, strict=True):
        done[name] = archive_pair(context, round_number, name, named[name], outcome, rollouts)
    return done


def archive_pair(
    context: Context,
    round_number: int,
    wanted: str,
    pair: tuple[str, str],
    outcome: Outcome,
    rollouts: Sequence[Rollout],
) -> str:
    """The pair's commit; the one there is where this round broke off after it, unless it was
    measured under other parameters."""
    own = {p.label: p for p in context.archive.pairs() if p.round == round_number}
    mark = (*pair, outcome.eval_key)
    settled = settle(wanted, own, lambda p: (p.harness, p.checkpoint, p.eval_key) == mark)
    if settled.known is not None:
        return settled.known.oid
    name = settled.name
    return context.archive.record_pair(
        PairDraft(
            name=name,
            round=round_number,
            harness=pair[0],
            checkpoint=pair[1],
            outcome=as_json(outcome),
            rollouts_dvc=context.dvc.add(keep_rollouts(context, name, rollouts)),
            split=outcome.split,
            eval_key=outcome.eval_key,
            subject=f"Measure {name}: score {outcome.score:.3f}, "
            f"TIMR {'n/a' if outcome.timr is None else format(outcome.timr, '.3f')}",
        )
    )


def keep_rollouts(context: Context, name: str, rollouts: Sequence[Rollout]) -> Path:
    """Write rollouts as JSON lines, without labels and under opaque ids, for DVC to keep."""
    path = context.root / ".coevo" / "rollouts" / context.params.run / f"{name}.jsonl"
    lines = [
        json.dumps(
            {
                "task": rollout.opaque_id,
                "score": rollout.verdict.score,
                "failure": rollout.verdict.failure,
                "trajectory": rollout.trajectory.to_json(),
            },
            ensure_ascii=False,
        )
        for rollout in rollouts
    ]
    write_bytes(path, ("\n".join(lines) + "\n").encode())
    return path


def as_json(record: object) -> Mapping[str, Any]:
    """A record as plain JSON values."""
    body: Mapping[str, Any] = adapter(type(record)).dump_python(record, mode="json")
    return body
