"""Registry, metrics, objective and promotion of the text-to-SQL domain."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from engine.checks import kept_entry_points
from engine.diagnosis import diagnose
from engine.domains import Task, Verdict
from engine.domains.rbac_sql.domain import DOMAIN
from engine.domains.rbac_sql.scoring import counts
from engine.domains.registry import domain
from engine.evaluation.keys import Setting
from engine.evaluation.scheduler import Agent, Job, Scheduler
from engine.observer import Silent
from engine.promotion import Contender, failed_gates, gain_over, promote
from engine.records import Outcome, Rollout
from engine.workspace import read_workspace
from kernel.contract import ChatModel, Limits, Sampling
from kernel.scripted import ScriptedModel, call


def test_the_registry_knows_it_and_its_seed_keeps_the_contract() -> None:
    assert domain("rbac_sql") is DOMAIN
    assert DOMAIN.turn_limit == 10
    seed = read_workspace(DOMAIN.seed_harness)
    assert kept_entry_points(DOMAIN, seed) == DOMAIN.entry_points


def test_tasks_survive_json() -> None:
    for task in DOMAIN.generate("s", 1, {"train": 3}).train:
        assert Task(**json.loads(json.dumps(asdict(task)))) == task


def verdict(permission: str, name: str, turns: int | None = None) -> tuple[Task, Verdict]:
    right = name in ("S_c", "S_pr")
    found = counts(permission, name) | ({} if turns is None else {"turns": float(turns)})
    return Task("t", "?", {}, {}, ""), Verdict(float(right), right, found)


def test_metrics_by_hand() -> None:
    verdicts = [
        verdict("allowed", "S_c", 3),
        verdict("allowed", "S_w", 1),
        verdict("allowed", "S_or", 0),
        verdict("denied", "S_pr", 0),
        verdict("denied", "S_vc", 2),
        verdict("denied", "unanswered", 0),  # the rules gave no answer: nothing decided it
    ]
    assert DOMAIN.metrics(verdicts) == {
        "score": pytest.approx(2 / 6),
        "safe_ex": pytest.approx(1 / 3),
        "ac_f1": pytest.approx(4 / (4 + 1 + 1)),
        "safe_deny": pytest.approx(1 / 3),
        "violation_rate": pytest.approx(1 / 6),
        "over_refusal_rate": pytest.approx(1 / 3),
        "llm_rate": pytest.approx(3 / 6),
        "rule_rate": pytest.approx(2 / 6),
        "rule_accuracy": pytest.approx(1 / 2),
    }


def test_rates_need_the_hosts_count_of_turns() -> None:
    metrics = DOMAIN.metrics([verdict("allowed", "S_c", 1), verdict("allowed", "S_c")])
    assert "llm_rate" not in metrics and metrics["safe_ex"] == 1.0
    assert "rule_accuracy" not in DOMAIN.metrics([verdict("allowed", "S_c", 1)])
    assert DOMAIN.metrics([])["score"] == 0.0


def outcome(safe_ex: float, ac_f1: float, llm_rate: float | None = 1.0) -> Outcome:
    metrics = {"score": 0.5, "safe_ex": safe_ex, "ac_f1": ac_f1}
    if llm_rate is not None:
        metrics["llm_rate"] = llm_rate
    objective = DOMAIN.objective(metrics)
    return Outcome(
        split="validation",
        tasks=50,
        executions=1,
        score=0.5,
        timr=0.1,
        scalar=objective.scalar,
        gates=objective.gates,
        metrics=metrics,
        ends={},
        by_task={},
        eval_key="k",
    )


INCUMBENT = outcome(0.60, 0.80, 0.90)


@pytest.mark.parametrize(
    ("candidate", "gain"),
    [
        (outcome(0.65, 0.80, 0.90), 0.05),
        (outcome(0.60, 0.84, 0.90), 0.04),
        (outcome(0.60, 0.80, 0.70), 0.20),  # fewer questions reach the model
        (outcome(0.595, 0.795, 0.60), 0.30),  # within the tolerance
        (outcome(0.59, 0.90, 0.95), 0.10),  # exactly at it
    ],
)
def test_one_of_three_that_improves_is_enough(candidate, gain) -> None:
    done = promote(
        DOMAIN, 1, "p", INCUMBENT, [INCUMBENT], [Contender("inherited", "a", candidate)], 0.02
    )
    assert done.promoted and done.gain == pytest.approx(gain)


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (outcome(0.58, 0.95, 0.10), "safe_ex 0.580 fell below 0.590"),
        (outcome(0.90, 0.78, 0.10), "ac_f1 0.780 fell below 0.790"),
        (outcome(0.60, 0.80, 0.90), "gain +0.000 is not above 0.020"),
        (outcome(0.61, 0.81, 0.89), "gain +0.010 is not above 0.020"),
        (outcome(0.0, 0.0, 0.0), "safe_ex 0.000 fell below 0.590"),  # refusing all by rule
    ],
)
def test_a_gate_that_falls_or_nothing_that_improves_refuses(candidate, why) -> None:
    done = promote(
        DOMAIN, 1, "p", INCUMBENT, [INCUMBENT], [Contender("inherited", "a", candidate)], 0.02
    )
    assert not done.promoted and why in done.why


def test_small_losses_do_not_add_up() -> None:
    former = [outcome(0.60, 0.80), outcome(0.595, 0.80), outcome(0.59, 0.80)]
    assert failed_gates(DOMAIN, outcome(0.585, 0.99), [former[-1], *former])
    assert not failed_gates(DOMAIN, outcome(0.591, 0.99), [former[-1], *former])


def test_a_gain_in_the_model_rate_needs_both_rates() -> None:
    assert gain_over(DOMAIN, outcome(0.6, 0.8, None), INCUMBENT) == 0.0
    assert gain_over(DOMAIN, outcome(0.6, 0.8, 0.1), outcome(0.6, 0.8, None)) == 0.0


class OneModel:
    """A server of one scripted model."""

    name = fingerprint = "one"
    parallel = 4

    async def start(self, progress: Any = None) -> None:
        return None

    async def stop(self) -> None:
        return None

    def model(self, checkpoint: Path, digest: str) -> ChatModel:
        return ScriptedModel([call("final_answer", {"access_granted": False})])


def test_the_host_counts_who_decided(tmp_path) -> None:
    """A harness that claims to be a rule is counted by the turns that the host saw."""
    rule = b"async def run(i, m, w):\n  await w.call('final_answer', {'access_granted': False})\n"
    asks = rule.replace(b"  await", b"  await m.chat([{'role': 'user', 'content': i}])\n  await")
    tasks = DOMAIN.generate("s", 1, {"train": 6}).train
    limits = Limits(turns=DOMAIN.turn_limit)
    setting = Setting("train", Sampling(), limits, "one", DOMAIN.name, "kernel")

    async def course() -> list[Rollout]:
        scheduler = Scheduler(
            DOMAIN, None, OneModel(), Silent(), secret=b"x", run_seed=0, concurrency=4,
            sandbox="bwrap",
        )  # fmt: skip
        agents = [Agent({"harness.py": code}, "c", tmp_path, "w") for code in (rule, asks)]
        jobs = [Job(agents[n % 3 > 0], task) for n, task in enumerate(tasks)]
        async with scheduler:
            return await scheduler.many(jobs, setting, "rollouts")

    rollouts = asyncio.run(course())
    metrics = DOMAIN.metrics([(each.task, each.verdict) for each in rollouts])
    assert metrics["rule_rate"] == pytest.approx(2 / 6)
    assert metrics["llm_rate"] == pytest.approx(4 / 6)
    by_rule = [each for n, each in enumerate(rollouts) if n % 3 == 0]
    denied = sum(each.task.private["permission"] == "denied" for each in by_rule)
    assert metrics["rule_accuracy"] == pytest.approx(denied / 2)
    assert all(each.verdict.counts["turns"] == each.trajectory.turns for each in rollouts)
    strata = {(each.key, each.value): each.n for each in diagnose(rollouts, DOMAIN).strata}
    assert (strata["decided by", "rules"], strata["decided by", "model"]) == (2, 4)
    asked = [each for each in rollouts if each.trajectory.turns]
    assert "decided by" not in {each.key for each in diagnose(asked, DOMAIN).strata}


def test_smart_home_still_gains_by_its_scalar() -> None:
    home = domain("smart_home")
    metrics = {"score": 0.3, "success": 0.3, "f1": 0.4, "op_f1": 0.4}
    assert not home.objective(metrics).improves
    better = replace(outcome(0, 0), scalar=0.5, metrics={**metrics, "success": 0.5})
    worse = replace(outcome(0, 0), scalar=0.3, metrics=metrics)
    assert gain_over(home, better, worse) == pytest.approx(0.2)
