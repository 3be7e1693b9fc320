from types import SimpleNamespace

import pytest
from kernel_cases import FINAL, LOOK, RULES, harness, play

from kernel.contract import Completion, InterfaceRules, RawToolCall
from kernel.mismatch import timr, violation
from kernel.scripted import call, malformed, text
from kernel.tools import example, parameters, validate


@pytest.mark.parametrize(
    ("completion", "flag"),
    [
        (call("look", {"room": "hall"}), ""),
        (call("final_answer", {"value": 3}), ""),
        (call("open", {"room": "hall"}), "unavailable_tool"),
        (call("open", "{broken"), "malformed"),
        (call("look", '{"room": '), "malformed"),
        (call("look", '["hall"]'), "malformed"),
        (call("look", '{"room": NaN}'), "malformed"),
        (call("look", {}), "contract"),
        (call("look", ""), "contract"),
        (call("look", {"room": 3}), "contract"),
        (call("look", {"room": "hall", "why": "x"}), "contract"),
        (call("final_answer", {"value": "3"}), "contract"),
        (text("I think it is three."), "contract"),
        (text(""), "contract"),
        (malformed(), "malformed"),
        (
            Completion(
                "", (RawToolCall("a", "look", '{"room":"x"}'), RawToolCall("b", "look", "{}"))
            ),
            "contract",
        ),
        (
            Completion(
                "", (RawToolCall("a", "look", '{"room":"x"}'), RawToolCall("b", "no", "{}"))
            ),
            "unavailable_tool",
        ),
    ],
)
def test_one_turn(completion, flag):
    assert violation(completion, RULES) == flag


def test_rules_may_allow_text_and_many_calls():
    free = InterfaceRules((LOOK, FINAL), calls_per_turn=None, text_turns=True)
    two = Completion("", tuple(RawToolCall(i, "look", '{"room":"x"}') for i in "ab"))
    assert violation(two, free) == violation(text("hm"), free) == ""


def test_timr_by_hand():
    counted = [SimpleNamespace(turns=t, violations=v) for t, v in ((4, 1), (1, 1), (0, 0), (3, 0))]
    assert timr(counted) == 2 / 8
    assert timr([]) is None
    assert timr([SimpleNamespace(turns=0, violations=0)]) is None


def test_a_turn_counts_once_and_recovery_does_not_undo_it():
    body = """
    messages = [{"role": "user", "content": "x"}]
    for _ in range(4):
        reply = await model.chat(messages, tools=world.tools)
    await world.call("final_answer", {"value": 1})
    """
    twice_wrong = Completion("", tuple(RawToolCall("", "nope", "{}") for _ in range(3)))
    steps = [twice_wrong, malformed(), text("hm"), call("look", {"room": "a"})]
    trajectory = play(harness(body), steps)
    assert (trajectory.turns, trajectory.violations) == (4, 3)
    flags = [event["violation"] for event in trajectory.events if event["kind"] == "reply"]
    assert flags == ["unavailable_tool", "malformed", "contract", ""]
    assert timr([trajectory]) == 3 / 4


def test_tools_of_its_own_neither_excuse_nor_dilute():
    body = """
    own = [{"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}}]
    for _ in range(2):
        await model.chat([{"role": "user", "content": "x"}], tools=own)
    for _ in range(3):
        await world.call("look", {"room": "hall"})
    """
    trajectory = play(harness(body), [call("mine", {})])
    assert timr([trajectory]) == 1.0
    assert trajectory.turns == 2


def test_examples_fit_their_schemas():
    for schema in parameters((LOOK, FINAL)).values():
        assert validate(example(schema), schema) == example(schema)


def test_a_bad_argument_is_named():
    with pytest.raises(ValueError, match=r"^value: 'x' is not of type 'integer'"):
        validate('{"value": "x"}', parameters((FINAL,))["final_answer"])
