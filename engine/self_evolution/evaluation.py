"""Frozen versions on held-out and out-of-distribution tasks, outside of every round.

Versions are measured alike, with today's parameters. What was measured before is not run again;
a rollout that an audit confirmed as cheating scores 0 and isn't run again either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.archive.drafts import EvaluationDraft
from engine.audit.standing import as_they_count, confirmed
from engine.context import FIRST_ROUND, Context
from engine.evaluation.keys import digest
from engine.evaluation.outcome import measured
from engine.evaluation.scheduler import Job
from engine.measurement import as_json, keep_rollouts, todays_setting
from engine.records import Outcome, Rollout
from engine.self_evolution.history import python_lines
from engine.self_evolution.report import Report, gain, report
from engine.solvers.solving import solve
from engine.statistics import Average
from engine.testing import opened


@dataclass(frozen=True)
class Version:
    """A pair to be measured. ``agent`` names an outside agent instead, beside the pair."""

    label: str
    pair: str
    agent: str = ""


@dataclass(frozen=True)
class Evaluated:
    """A version as it was measured. ``lines`` are its harness's Python lines, blank ones and
    comments too (the paper's Table 4); None for an outside agent. ``gains`` are against the first
    version, in and out of distribution; ``cheats`` are confirmed rollouts, which score 0."""

    version: Version
    commit: str
    outcome: Outcome
    report: Report
    lines: int | None
    gains: tuple[Average | None, Average | None]
    cheats: int


@dataclass(frozen=True)
class Iteration:
    """One step of the lineage: the harness that held the title after a round."""

    round: int
    harness: str
    label: str
    lines: int
    added: int
    subject: str


async def evaluate_versions(
    context: Context, versions: Sequence[Version], split: str, repeats: int
) -> list[Evaluated]:
    """Measure versions on a split, ``repeats`` executions of each task, and archive each. Raises
    ModelError or SandboxError; what had finished is kept."""
    whole = opened(
        replace(context, params=context.params.model_copy(update={"executions": repeats}))
    )
    found = await _rollouts(whole, versions, split)
    known = confirmed(context)
    done: list[Evaluated] = []
    first = as_they_count(whole, found[0].rollouts, known)
    for version, each in zip(versions, found, strict=True):
        settled = as_they_count(whole, each.rollouts, known)
        outcome, figures = _outcome(whole, settled, each.keys, split), report(settled)
        gains = (gain(first, settled, False), gain(first, settled, True)) if done else (None, None)
        cheats = sum(digest(r.trajectory.to_json()) in known for r in each.rollouts)
        lines = None if version.agent else _lines(context, version.pair)
        commit = _archived(whole, version, each, outcome, figures)
        done.append(Evaluated(version, commit, outcome, figures, lines, gains, cheats))
    return done


@dataclass(frozen=True)
class _Run:
    rollouts: Sequence[Rollout]
    keys: Sequence[str]


async def _rollouts(context: Context, versions: Sequence[Version], split: str) -> list[_Run]:
    setting, tasks = context.setting(split), context.tasks(split)
    done = []
    async with context.scheduler() as scheduler:
        for version in versions:
            if version.agent:
                done.append(_Run(*await solve(context, version.agent, split, tasks)))
                continue
            pair = context.archive.pair(version.pair)
            agent = context.agent(pair.harness, pair.checkpoint)
            jobs = [Job(agent, t, e) for t in tasks for e in range(context.params.executions)]
            rollouts = await scheduler.many(jobs, setting, f"{version.label} on {split}")
            done.append(_Run(rollouts, scheduler.keys(jobs, setting)))
    return done


def _outcome(
    context: Context, rollouts: Sequence[Rollout], keys: Sequence[str], split: str
) -> Outcome:
    return measured(context.domain, rollouts, keys, todays_setting(context, split))


def _archived(
    context: Context, version: Version, run: _Run, outcome: Outcome, figures: Report
) -> str:
    """The commit of this measurement; the one there is where it was archived before."""
    for known in context.archive.evaluations():
        if (known.pair, known.agent, known.eval_key) == (
            version.pair,
            version.agent,
            outcome.eval_key,
        ):
            return known.oid
    name = f"evaluation-{outcome.eval_key[:12]}"
    return context.archive.record_evaluation(
        EvaluationDraft(
            pair=version.pair,
            agent=version.agent,
            outcome=as_json(outcome),
            report=as_json(figures),
            rollouts_dvc=context.dvc.add(keep_rollouts(context, name, run.rollouts)),
            eval_key=outcome.eval_key,
            subject=f"Evaluate {version.label} on {outcome.split}: {100 * outcome.score:.2f}, "
            f"families alike {100 * figures.overall.mean:.2f}",
        )
    )


def _lines(context: Context, pair: str) -> int:
    harness = context.archive.pair(pair).harness
    return python_lines(context.archive.harness(harness).files)


def iterations(context: Context) -> list[Iteration]:
    """The harness after each round (the paper's Table 4)."""
    rows = []
    for done in context.archive.rounds():
        harness = context.archive.harness(context.archive.pair(done.incumbent).harness)
        rows.append(
            Iteration(
                done.round,
                harness.oid,
                harness.label,
                python_lines(harness.files),
                harness.lines_added,
                harness.subject,
            )
        )
    return rows


def usual_versions(context: Context) -> list[Version]:
    """The seed and, in self-evolution, what each finished stage ended with; the newest version
    where that is neither."""
    tip = context.archive.tip()
    assert tip is not None
    ends = [0, *_stage_ends(context, tip.round), tip.round]
    versions = []
    for number in dict.fromkeys(ends):
        pair = context.archive.round(f"r{number:03d}").incumbent
        versions.append(Version("seed" if number == 0 else f"iteration {number}", pair))
    return versions


def _stage_ends(context: Context, newest: int) -> list[int]:
    from engine.self_evolution.draw import schedule

    if context.params.mode != "self":
        return []
    last = {i.stage: i.number for i in schedule(context).iterations}
    return [number for number in last.values() if number <= newest]


def facts(context: Context, done: Sequence[Evaluated], split: str) -> dict[str, Any]:
    """An evaluation as JSON."""
    return {
        "split": split,
        "versions": [as_json(each) for each in done],
        "iterations": [as_json(row) for row in iterations(context)],
        "seed": context.archive.round(FIRST_ROUND).incumbent,
    }
