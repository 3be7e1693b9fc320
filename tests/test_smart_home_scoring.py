"""The official counting: cases worked by hand, and laws."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domains.smart_home.scoring import Counts, count, f1, failure, figures, operations

ON = "kitchen.light.turn_on()"
DIM = "kitchen.light.set_brightness(20)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a.b.c()}", ["a.b.c()"]),
        ("{ a.b.c( 1 ) }", ["a.b.c(1)"]),
        ("Sure:\n{a.b\n.c()}\nDone.", ["a.b.c()"]),
        ("{a,b,}", ["a", "b"]),
        ("{,,a,,}", ["a"]),
        ("{a}{b}", ["a", "b"]),
        ("{a} and {b,c}", ["a", "b", "c"]),
        ("a.b.c()", []),
        ("error_input", []),
        ("", []),
        ("{}", []),
        ("{a", []),
        ("{{a}}", ["{a"]),
        ("{error_input,error_input}", ["error_input", "error_input"]),
        ("{a.set_color(1,2,3)}", ["a.set_color(1", "2", "3)"]),
        ("{'''a'''}", ["'''a'''"]),
        ("{a\tb}", ["a\tb"]),
        ("{A.B()}", ["A.B()"]),
    ],
)
def test_operations_of_a_prediction(text, expected):
    assert operations(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("''' a.b.c()'''", ["a.b.c()"]),
        ("'''error_input'''", ["error_input"]),
        ("'''a.b.c(1),error_input,'''", ["a.b.c(1)", "error_input"]),
        ("'''a,\nb,'''", ["a", "b"]),
        ("a,b", ["a", "b"]),
        ("''''''", []),
    ],
)
def test_operations_of_a_reference(text, expected):
    assert operations(text, gold=True) == expected


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        # n, success, tp, pred, gold, and tp, pred, gold without error_input
        (f"{{{ON}}}", f"''' {ON}'''", (1, 1, 1, 1, 1, 1, 1, 1)),
        (f"{{{DIM},{ON}}}", f"'''{ON},{DIM},'''", (1, 1, 2, 2, 2, 2, 2, 2)),
        ("{error_input}", "'''error_input,error_input,'''", (1, 0, 1, 1, 2, 0, 0, 0)),
        ("{error_input,error_input,error_input}", "'''error_input,'''", (1, 0, 1, 3, 1, 0, 0, 0)),
        (f"{{{ON},{ON}}}", f"''' {ON}'''", (1, 0, 1, 2, 1, 1, 2, 1)),
        (ON, f"''' {ON}'''", (1, 0, 0, 0, 1, 0, 0, 1)),
        ("", "'''error_input'''", (1, 0, 0, 0, 1, 0, 0, 0)),
        (f"{{error_input,{ON}}}", f"'''{ON},error_input,'''", (1, 1, 2, 2, 2, 1, 1, 1)),
        (f"{{{DIM}}}", "''' kitchen.light.set_brightness(30)'''", (1, 0, 0, 1, 1, 0, 1, 1)),
    ],
)
def test_counts_of_one_answer(prediction, gold, expected):
    assert count(prediction, gold) == Counts(*expected)


def test_f1_is_micro_over_operations():
    answers = [
        (f"{{{ON},{DIM}}}", f"'''{ON},error_input,'''"),
        ("", f"''' {ON}'''"),
        ("{error_input}", "'''error_input'''"),
    ]
    total = sum((count(*answer) for answer in answers), Counts())
    # precision 2/3, recall 2/4
    assert figures(total.as_dict())["f1"] == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    assert figures(total.as_dict())["success"] == pytest.approx(1 / 3)
    # without error_input: tp 1, predicted 2, expected 2
    assert figures(total.as_dict())["op_f1"] == pytest.approx(0.5)


def test_nothing_predicted_at_all_is_zero():
    assert figures(count("", f"''' {ON}'''").as_dict()) == {"success": 0, "f1": 0, "op_f1": 0}
    assert f1(0, 0, 0) == 0
    assert figures(Counts().as_dict()) == {"success": 0, "f1": 0, "op_f1": 0}


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        (f"{{{ON}}}", ON, ""),
        (None, ON, "no_answer"),
        (ON, ON, "no_commands"),
        ("{error_input}", ON, "rejected_feasible"),
        (f"{{{ON}}}", "error_input", "accepted_infeasible"),
        (f"{{{ON}}}", f"{ON},{DIM}", "too_few"),
        (f"{{{ON},{DIM}}}", ON, "too_many"),
        (f"{{{DIM}}}", "kitchen.light.set_brightness(30)", "wrong_value"),
        (f"{{{ON}}}", "foyer.light.turn_on()", "wrong_command"),
        (f"{{error_input,{ON}}}", f"{ON},{DIM}", "rejected_feasible"),
    ],
)
def test_failure_names_what_is_wrong(prediction, gold, expected):
    assert failure(prediction, gold) == expected


commands = st.lists(st.sampled_from(["error_input", ON, DIM, "a.b.c(1)", "a.b.c(2)"]), max_size=6)


def braced(parts: list[str]) -> str:
    return "{" + ",".join(parts) + "}"


@given(commands.filter(bool), st.data())
def test_order_does_not_matter(parts, data):
    shuffled = data.draw(st.permutations(parts))
    assert count(braced(shuffled), ",".join(parts)).success == 1


@given(commands, commands.filter(bool), st.data())
def test_a_permuted_prediction_counts_the_same(predicted, gold, data):
    shuffled = data.draw(st.permutations(predicted))
    reference = "'''" + ",".join(gold) + ",'''"
    assert count(braced(predicted), reference) == count(braced(shuffled), reference)


@given(commands, commands.filter(bool))
def test_figures_are_fractions_and_success_is_full_overlap(predicted, gold):
    counts = count(braced(predicted), ",".join(gold))
    found = figures(counts.as_dict())
    assert all(0 <= value <= 1 for value in found.values())
    assert (counts.success == 1) == (counts.tp == counts.pred == counts.gold)
    assert (found["f1"] == 1) == (counts.success == 1)
    assert counts.op_tp <= counts.tp and counts.op_pred <= counts.pred


@given(st.lists(st.tuples(commands, commands.filter(bool)), max_size=5))
def test_counts_add_up(answers):
    counts = [count(braced(predicted), ",".join(gold)) for predicted, gold in answers]
    total = sum(counts, Counts())
    assert total.n == len(answers)
    assert total.as_dict() == sum(reversed(counts), Counts()).as_dict()


@given(st.text(), st.text())
def test_any_text_can_be_counted(prediction, gold):
    counts = count(prediction, gold)
    assert 0 <= counts.tp <= min(counts.pred, counts.gold)


@given(st.text(alphabet="{}a,( \n\r\x85", max_size=40))
def test_the_braces_are_read_as_the_official_expression_reads_them(text):
    bare = text.replace(" ", "").replace("\n", "")
    found = ",".join(re.findall(r"\{(.*?)\}", bare)).split(",")
    assert operations(text) == [each for each in found if each]


def test_unclosed_braces_take_no_longer_than_their_length():
    started = time.process_time()
    assert operations("{" * 2_000_000) == []
    assert time.process_time() - started < 10  # hours, were it quadratic


@given(commands, st.sampled_from([" ", "\n", "  \n"]), st.data())
def test_spaces_and_newlines_are_nothing(parts, space, data):
    text = braced(parts)
    place = data.draw(st.integers(0, len(text)))
    assert operations(text[:place] + space + text[place:]) == operations(text)
