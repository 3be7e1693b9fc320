"""Registry, verifier, metrics, objective and strata of failure attribution."""

from __future__ import annotations

from typing import Any

import pytest

from engine.checks import kept_entry_points
from engine.domains import Task
from engine.domains.attribution.domain import DOMAIN, LONG
from engine.domains.attribution.trace import Step, Trace, make_task
from engine.domains.registry import domain
from engine.leaks import Forbidden, leaks
from engine.promotion import Contender, promote
from engine.records import Outcome
from engine.workspace import read_workspace


def task(steps: int = 4, agents: int = 2, culprit: str = "A1", step: int = 1) -> Task:
    said = [Step(number, f"A{number % agents}", "…") for number in range(steps)]
    return make_task(Trace("t", "made", "Why?", said, culprit, step))


def test_the_registry_knows_it_and_its_seed_keeps_the_contract() -> None:
    assert domain("attribution") is DOMAIN
    assert domain("engine.domains.attribution.domain:LONG") is LONG
    assert DOMAIN.turn_limit == 20
    seed = read_workspace(DOMAIN.seed_harness)
    assert kept_entry_points(DOMAIN, seed) == DOMAIN.entry_points == {"build_harness": ("trace",)}


@pytest.mark.parametrize(
    ("answer", "score", "failure"),
    [
        ({"agent": "A1", "step": 1}, 1.0, ""),
        ({"agent": "A1 (thought)", "step": 1}, 1.0, ""),
        ({"agent": "A1", "step": 10}, 0.3, "wrong_step"),
        ({"agent": "A0", "step": 1}, 0.7, "wrong_agent"),
        ({"agent": "A0", "step": 0}, 0.0, "wrong_agent_and_step"),
        ({"agent": "A1", "step": True}, 0.0, "no_answer"),
        ({"agent": "A1", "step": "1"}, 0.0, "no_answer"),
        ({"agent": None, "step": 1}, 0.0, "no_answer"),
        ("A1", 0.0, "no_answer"),
        (None, 0.0, "no_answer"),
    ],
)
def test_verdicts_by_hand(answer: Any, score: float, failure: str) -> None:
    verdict = DOMAIN.verify(task(), answer)
    assert (verdict.score, verdict.failure) == (pytest.approx(score), failure)
    assert verdict.accepted == (score == 1.0)


def test_metrics_by_hand() -> None:
    """Labels: A1 at step 1. Three agents of four are right, two steps; the substring test also
    takes step 10 and agent A12."""
    answers = [
        {"agent": "A1", "step": 1},
        {"agent": "A1", "step": 10},
        {"agent": "A1", "step": 2},
        {"agent": "A12", "step": 1},
        None,
    ]
    metrics = DOMAIN.metrics([(task(), DOMAIN.verify(task(), answer)) for answer in answers])
    assert metrics == {
        "score": pytest.approx((1.0 + 0.3 + 0.3 + 0.7 + 0.0) / 5),
        "agent_accuracy": 3 / 5,
        "step_accuracy": 2 / 5,
        "official_agent_accuracy": 4 / 5,
        "official_step_accuracy": 3 / 5,
    }
    objective = DOMAIN.objective(metrics)
    assert objective.scalar == pytest.approx((3 * 0.6 + 7 * 0.4) / 10)
    assert not objective.gates and not objective.improves
    assert DOMAIN.metrics([])["agent_accuracy"] == 0.0


@pytest.mark.parametrize(
    ("steps", "length"),
    [(1, "<=10"), (10, "<=10"), (11, "11-20"), (20, "11-20"), (21, "21-40"), (40, "21-40"),
     (41, ">40"), (130, ">40")],
)  # fmt: skip
def test_strata_by_length(steps, length) -> None:
    assert task(steps, step=0).strata["length"] == length


@pytest.mark.parametrize(("agents", "stratum"), [(2, "2"), (4, "4"), (5, ">=5"), (9, ">=5")])
def test_strata_by_agents(agents, stratum) -> None:
    assert task(20, agents).strata["agents"] == stratum


def outcome(agent_accuracy: float, step_accuracy: float) -> Outcome:
    metrics = {"score": 0.5, "agent_accuracy": agent_accuracy, "step_accuracy": step_accuracy}
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


@pytest.mark.parametrize(
    ("candidate", "gain"),
    [((0.5, 0.5), 0.14), ((0.8, 0.3), 0.09), ((0.2, 0.5), 0.05), ((0.9, 0.2), 0.05)],
)
def test_promotion_goes_by_the_weighted_mean(candidate, gain) -> None:
    incumbent = outcome(0.5, 0.3)
    contender = Contender("inherited", "a", outcome(*candidate))
    done = promote(DOMAIN, 1, "p", incumbent, [incumbent], [contender], 0.02)
    assert done.promoted and done.gain == pytest.approx(gain)
    lower = Contender("inherited", "a", outcome(1.0, 0.08))
    assert not promote(DOMAIN, 1, "p", incumbent, [incumbent], [lower], 0.02).promoted


def test_an_offspring_that_holds_a_step_of_a_validation_log_is_found() -> None:
    parts = DOMAIN.generate("s", 3, {"train": 6, "validation": 6})
    forbidden = Forbidden.of_tasks(DOMAIN, parts.train, parts.validation)
    taught = {text for task in parts.train for text in task.private["texts"].values()}
    own = max(
        (text for task in parts.validation for text in task.private["texts"].values()),
        key=lambda text: (text not in taught, len(text)),
    )
    files = {"harness.py": f"HINT = {own!r}\n".encode()}
    assert list(leaks(files, {}, forbidden)) == ["harness.py holds text of a validation task"]
    assert list(leaks({"harness.py": b"HINT = 'inspect a few steps first'\n"}, {}, forbidden)) == []
