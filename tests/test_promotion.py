"""Promotion by the margin and the gates, worked by hand."""

from __future__ import annotations

from dataclasses import replace

from engine.domains import Objective
from engine.domains.smart_home import DOMAIN
from engine.promotion import Contender, failed_gates, order, promote
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


def choose(*contenders: Contender, margin: float = 0.02):
    return promote(DOMAIN, 1, "p", INCUMBENT, [INCUMBENT], contenders, margin)


class Lenient(type(DOMAIN)):
    """Its gates may fall by 0.05."""

    def objective(self, metrics):
        strict = super().objective(metrics)
        return Objective(strict.scalar, strict.gates, dict.fromkeys(strict.gates, 0.05))


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


def test_small_losses_within_the_tolerance_do_not_add_up() -> None:
    """Each gate is bound by its best value among all incumbents, not by the best incumbent."""
    former = [outcome(0.10, 0.40, 0.50), outcome(0.15, 0.45, 0.46), outcome(0.20, 0.42, 0.42)]
    fallen = Contender("adapted", "b", outcome(0.60, 0.60, 0.44))
    done = promote(Lenient(), 3, "p", former[-1], former, [fallen], 0.0)
    assert not done.promoted and "op_f1 0.440 fell below 0.450" in done.why
    assert promote(Lenient(), 3, "p", former[-1], former[1:], [fallen], 0.0).promoted


def test_a_pair_without_any_turn_does_not_win_a_tie_by_its_mismatch_rate() -> None:
    silent = replace(outcome(0.44, 0.60, 0.50), timr=None)
    spoken = replace(outcome(0.44, 0.60, 0.50), timr=0.3)
    done = choose(Contender("inherited", "a", silent), Contender("adapted", "b", spoken))
    assert done.next == "b"


def test_an_outcome_above_the_floors_goes_before_a_better_one_that_is_not() -> None:
    reject_all, honest = outcome(0.39, 0.5, 0.0, tasks=16), outcome(0.10, 0.2, 0.2, tasks=16)
    assert order(DOMAIN, honest, []) > order(DOMAIN, reject_all, [])
    better = outcome(0.12, 0.1, 0.1, tasks=16)
    assert order(DOMAIN, better, []) > order(DOMAIN, honest, []), "no reference, so floors only"
    assert order(DOMAIN, honest, [honest]) > order(DOMAIN, better, [honest])


def test_outcomes_of_another_setting_are_no_ground_for_promotion() -> None:
    other = replace(outcome(0.9, 0.9, 0.9), setting={"limits.turns": 40})
    done = choose(Contender("inherited", "a", other))
    assert not done.promoted and "another setting" in done.why
