"""Promotion by the margin and the gates, worked by hand."""

from __future__ import annotations

from dataclasses import replace

from engine.domains.smart_home import DOMAIN
from engine.promotion import Contender, failed_gates, promote
from engine.records import Outcome


def outcome(success: float, f1: float, op_f1: float, tasks: int = 50) -> Outcome:
    metrics = {"score": success, "success": success, "f1": f1, "op_f1": op_f1}
    objective = DOMAIN.objective(metrics)
    return Outcome(
        split="validation",
        tasks=tasks,
        executions=1,
        score=success,
        timr=0.1,
        scalar=objective.scalar,
        gates=objective.gates,
        metrics=metrics,
        ends={},
        by_task={},
        eval_key="k",
    )


INCUMBENT = outcome(0.20, 0.40, 0.30)


def choose(*contenders: Contender, margin: float = 0.02, best: Outcome = INCUMBENT):
    return promote(DOMAIN, 1, "p", INCUMBENT, best, contenders, margin)


def test_the_best_of_inherited_and_adapted_is_promoted() -> None:
    done = choose(
        Contender("inherited", "a", outcome(0.30, 0.50, 0.40)),
        Contender("adapted", "b", outcome(0.44, 0.60, 0.50)),
    )
    assert (done.promoted, done.next, done.source) == (True, "b", "adapted")
    assert abs(done.gain - 0.24) < 1e-12
    assert done.gains == {"inherited": 0.30 - 0.20, "adapted": 0.44 - 0.20}


def test_a_gain_that_only_equals_the_margin_is_not_enough() -> None:
    exactly = outcome(0.25, 0.50, 0.40)
    assert not choose(Contender("adapted", "b", exactly), margin=0.25 - 0.20).promoted
    assert choose(Contender("adapted", "b", exactly), margin=0.049).promoted


def test_a_gate_that_falls_refuses_a_gain() -> None:
    done = choose(Contender("adapted", "b", outcome(0.44, 0.39, 0.50)))
    assert not done.promoted and done.next == "p" and done.gain == 0.0
    assert "f1 0.390 fell below 0.400" in done.why


def test_rejecting_everything_never_wins() -> None:
    """Always {error_input}: a large share of right answers, no operation right."""
    nothing_before = replace(INCUMBENT, gates={"f1": 0.0, "op_f1": 0.0})
    reject_all = outcome(0.39, 0.5, 0.0)
    assert failed_gates(DOMAIN, reject_all, [nothing_before])
    assert not choose(Contender("adapted", "b", reject_all)).promoted


def test_a_partial_evaluation_is_no_ground_for_promotion() -> None:
    assert not choose(Contender("inherited", "a", outcome(0.9, 0.9, 0.9, tasks=16))).promoted


def test_without_contenders_the_incumbent_stays() -> None:
    done = choose()
    assert (done.promoted, done.next, done.source) == (False, "p", "incumbent")
