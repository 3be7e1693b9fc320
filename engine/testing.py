"""The test split's only reader. No round calls this, and no round reads what it records."""

from __future__ import annotations

from dataclasses import dataclass

from engine.context import Context
from engine.measurement import as_json, evaluate
from engine.records import Outcome
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
    """Measure a pair, and the seed pair beside it, on the test split; archive the use of it."""
    seed_oid = context.archive.rounds()[0].incumbent
    both = [context.archive.pair(pair_oid), context.archive.pair(seed_oid)]
    async with context.scheduler() as scheduler:
        (outcome, _), (seed, _) = await evaluate(
            context, scheduler, [(p.harness, p.checkpoint) for p in both], SPLIT, "test split"
        )
    tasks = sorted(outcome.by_task)
    difference = paired_bootstrap(
        [seed.by_task[task][0] for task in tasks], [outcome.by_task[task][0] for task in tasks]
    )
    commit = context.archive.record_test(
        pair=pair_oid,
        outcome={"outcome": as_json(outcome), "seed": as_json(seed)},
        subject=f"Test {both[0].label}: score {outcome.score:.3f}",
    )
    return TestResult(pair_oid, outcome, seed_oid, seed, difference, commit)
