"""The test split's only reader. No round calls this, and no round reads what it records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from engine.context import FIRST_ROUND, Context
from engine.measurement import as_json, evaluate, keep_rollouts
from engine.records import Outcome
from engine.replaying import as_of
from engine.statistics import Difference, paired_bootstrap

SPLIT = "test"


@dataclass(frozen=True)
class TestResult:
    """A pair and the seed pair on the test split, and the paired difference of their scores."""

    pair: str
    outcome: Outcome
    seed_pair: str
    seed: Outcome
    difference: Difference
    commit: str


async def test_pair(context: Context, pair_oid: str) -> TestResult:
    """Measure a pair, and the seed pair beside it, on the test split, both with the parameters of
    the pair's round; archive the use of it."""
    pair = context.archive.pair(pair_oid)
    seed_pair = context.archive.pair(context.archive.round(FIRST_ROUND).incumbent)
    then = as_of(context, pair.round)
    then = opened(then)
    async with then.scheduler() as scheduler:
        (outcome, rollouts), (seed, _) = await evaluate(
            then,
            scheduler,
            [(p.harness, p.checkpoint) for p in (pair, seed_pair)],
            SPLIT,
            "test split",
        )
    tasks = sorted(outcome.by_task)
    difference = paired_bootstrap(_scores(seed, tasks), _scores(outcome, tasks))
    commit = context.archive.record_test(
        pair=pair.oid,
        outcome={**as_json(outcome), "seed_pair": {"pair": seed_pair.oid, **as_json(seed)}},
        subject=f"Test {pair.label}: score {outcome.score:.3f}",
        eval_key=outcome.eval_key,
        rollouts_dvc=context.dvc.add(
            keep_rollouts(context, f"test-{outcome.eval_key[:12]}", rollouts)
        ),
    )
    return TestResult(pair.oid, outcome, seed_pair.oid, seed, difference, commit)


def _scores(outcome: Outcome, tasks: Sequence[str]) -> list[float]:
    """Each task's mean over its executions."""
    return [fmean(outcome.by_task[task]) for task in tasks]


def opened(context: Context) -> Context:
    """A context that may read the test split, too: for evaluations and audits, which no round
    reaches."""
    return replace(context, readable=context.readable | {SPLIT})
