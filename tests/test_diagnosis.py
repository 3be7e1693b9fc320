"""The diagnosis, against counts made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipe_cases import rollout

from engine.diagnosis import ADDRESSABLE, EXTERNAL, MODEL_LIMITED, Feedback, cause, diagnose
from engine.domains.smart_home import DOMAIN
from engine.records import from_bytes, to_bytes

GOOD = {"failure": "", "end": "answered"}

ROLLOUTS = [
    rollout("a", operations="1", **GOOD),
    rollout("b", operations="1", **GOOD),
    rollout("c", operations="1", failure="wrong_value", looked=1),
    rollout("d", operations="1", failure="wrong_value", looked=2),
    rollout("e", operations="2", failure="wrong_value"),
    rollout("f", operations="2", failure="accepted_infeasible"),
    rollout("g", operations="2", end="no_answer", flags=("", "malformed")),
    rollout("h", operations="2", end="no_answer", flags=("contract",)),
    rollout("i", operations="2", end="turn_limit", flags=("contract", "unavailable_tool", "")),
    rollout("j", operations="2", end="model_error", flags=()),
]


def test_golden_counts():
    feedback = diagnose(ROLLOUTS, DOMAIN)
    assert (feedback.n, feedback.score) == (10, 0.2)
    assert feedback.timr == pytest.approx(4 / 12)
    assert feedback.turns == 1.2
    assert feedback.ends == {"answered": 6, "no_answer": 2, "model_error": 1, "turn_limit": 1}
    assert feedback.violations == {"contract": 2, "malformed": 1, "unavailable_tool": 1}
    assert [(each.cause, each.count, each.kind) for each in feedback.classes] == [
        ("wrong_value", 3, MODEL_LIMITED),
        ("accepted_infeasible", 1, ADDRESSABLE),
        ("malformed", 1, ADDRESSABLE),
        ("model_error", 1, EXTERNAL),
        ("no_call", 1, ADDRESSABLE),
        ("turn_limit", 1, ADDRESSABLE),
    ]
    assert feedback.classes[0].samples == ("c", "d", "e") and feedback.classes[0].grounded == 2
    assert feedback.controls == ("a", "b")
    assert feedback.metrics["score"] == 0.2
    rows = {(row.key, row.value): row for row in feedback.strata}
    one = rows[("operations", "1")]
    assert (one.n, one.score, one.failures) == (4, 0.5, {"wrong_value": 2})
    assert rows[("operations", "2")].n == 6 and rows[("operations", "2")].score == 0.0


def test_small_classes_are_folded_into_one():
    names = [f"kind{number}" for number in range(9)]
    failed = [rollout(name, failure=name) for name in names for _ in range(2)]
    feedback = diagnose(failed, DOMAIN)
    assert len(feedback.classes) == 6
    assert (feedback.classes[-1].cause, feedback.classes[-1].count) == ("other", 8)


def test_a_large_class_is_cut_by_a_stratum():
    failed = [rollout(f"a{n}", operations="1", failure="wrong_command") for n in range(5)]
    failed += [rollout(f"b{n}", operations="2", failure="wrong_command") for n in range(3)]
    classes = diagnose(failed, DOMAIN).classes
    assert [(each.where, each.count) for each in classes] == [
        ("operations 1", 5),
        ("not operations 1", 3),
    ]
    assert {each.cause for each in classes} == {"wrong_command"}


def test_nothing_failed_and_nothing_ran():
    assert diagnose([rollout("a", **GOOD)], DOMAIN).classes == ()
    assert diagnose([rollout("a", end="model_error", flags=())], DOMAIN).timr is None
    with pytest.raises(ValueError, match="no rollout"):
        diagnose([], DOMAIN)


def test_a_looked_up_episode_that_never_answered_is_grounded():
    unanswered = rollout("a", end="turn_limit", looked=1)
    assert diagnose([unanswered], DOMAIN).classes[0].grounded == 1
    assert cause(unanswered) == "turn_limit"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "wrong_value", "wrong_command", "too_few", "x", "y", "z", "w"]),
            st.sampled_from(["1", "2", "3-5"]),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_every_failure_is_in_exactly_one_class(spec):
    rollouts = [
        rollout(str(number), failure=failure, operations=operations, looked=looked)
        for number, (failure, operations, looked) in enumerate(spec)
    ]
    feedback = diagnose(rollouts, DOMAIN)
    failed = sum(bool(failure) for failure, _, _ in spec)
    assert sum(each.count for each in feedback.classes) == failed
    assert len(feedback.classes) <= 6
    assert from_bytes(to_bytes(feedback), Feedback, "feedback.json") == feedback
