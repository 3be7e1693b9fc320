import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.trajectory import (
    ENDS,
    Requests,
    Trajectory,
    conversations,
    messages,
)

CONTENT = st.text(max_size=5) | st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)}), max_size=2
)
MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": CONTENT})
TOOLS = st.sampled_from([[], [{"name": "a"}], [{"name": "b"}]])
REQUESTS = st.lists(st.tuples(st.lists(MESSAGE, max_size=4), TOOLS), max_size=5)


def reply(turn: int, content: str = "ok", violation: str = "") -> dict:
    message = {"role": "assistant", "content": content}
    return {"kind": "reply", "turn": turn, "message": message, "violation": violation}


def record(requests, replies) -> Trajectory:
    packer, events = Requests(), []
    for turn, (sent, tools) in enumerate(requests):
        events.append(packer.pack(turn, sent, tools))
        events += [event for event in replies if event["turn"] == turn]
    return Trajectory(tuple(events), "no_answer", None, len(replies), 0, 1, 2, 0.5)


@given(REQUESTS)
def test_requests_unpack_to_what_was_sent(requests):
    trajectory = record(requests, [reply(turn) for turn in range(len(requests))])
    assert [(turn.messages, turn.tools) for turn in messages(trajectory)] == requests


@given(REQUESTS, st.sampled_from(ENDS), st.text(max_size=9), st.none() | st.integers())
def test_json_round_trip(requests, end, error, answer):
    trajectory = replace(record(requests, []), end=end, error=error, answer=answer)
    assert Trajectory.from_json(json.loads(json.dumps(trajectory.to_json()))) == trajectory


def test_a_record_of_another_schema_is_refused():
    whole = record([([{"role": "user", "content": "ü"}], [])], [reply(0)]).to_json()
    with pytest.raises(ValueError, match="schema 99"):
        Trajectory.from_json(whole | {"schema": 99})
    del whole["turns"]
    with pytest.raises(ValueError, match="without turns"):
        Trajectory.from_json(whole)


def test_a_record_of_schema_1_stays_readable():
    old = (
        '{"events": [{"kind": "request", "turn": 0, "keep": 0, "messages": [{"role": "user", '
        '"content": "hi"}]}, {"kind": "reply", "turn": 0, "message": {"role": "assistant", '
        '"content": "ok"}, "violation": "contract", "prompt_tokens": 3, "completion_tokens": 1, '
        '"latency_s": 0.1, "finish_reason": "stop"}], "end": "no_answer", "answer": null, '
        '"turns": 1, "violations": 1, "prompt_tokens": 3, "completion_tokens": 1, "wall_s": 0.2, '
        '"error": "", "schema": 1}'
    )
    (turn,) = messages(Trajectory.from_json(json.loads(old)))
    assert turn.reply == {"role": "assistant", "content": "ok"}
    assert turn.violation == "contract"


def test_a_growing_history_is_stored_once_and_taught_once():
    user, seen = {"role": "user", "content": "x" * 1000}, {"role": "tool", "content": "y"}
    example = {"role": "assistant", "content": "an example in the prompt"}
    replies = [reply(0, "first", "malformed"), reply(1, "second"), reply(2, "third")]
    said = [event["message"] for event in replies]
    first = [user, example]
    second = [*first, said[0], seen]
    third = [*second, said[1], seen]
    trajectory = record([(first, []), (second, []), (third, [])], replies)
    assert len(json.dumps(trajectory.to_json())) < 2500
    (conversation,) = conversations(trajectory)
    assert conversation.messages == [*third, said[2]]
    assert conversation.train == [False, False, True, True]


def test_a_rewritten_history_is_a_conversation_of_its_own():
    user, short = {"role": "user", "content": "long"}, {"role": "user", "content": "short"}
    replies = [reply(0, "a"), reply(1, "b")]
    trajectory = record([([user], []), ([short], [])], replies)
    assert [item.train for item in conversations(trajectory)] == [[True], [True]]
    refused = record([([user], []), ([short], [])], replies[1:])  # the first got no completion
    assert [item.messages[0] for item in conversations(refused)] == [short]


USER = {"role": "user", "content": "u"}


def call(turn: int, commands: str, name: str = "final_answer") -> dict:
    arguments = {"commands": commands}
    return {
        "kind": "call", "turn": turn, "name": name, "arguments": arguments, "observation": "ok",
    }  # fmt: skip


def asking(turn: int, commands: str, violation: str = "") -> dict:
    """A reply with one call; one without, where it is malformed."""
    function = {"name": "final_answer", "arguments": json.dumps({"commands": commands})}
    message = {
        "role": "assistant", "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }  # fmt: skip
    said = reply(turn, commands, violation)
    return said if violation else {**said, "message": message}


def taught(requests, replies, *calls) -> list[str]:
    """The taught replies: the commands of a call, or the text."""
    trajectory = record(requests, replies)
    made = conversations(replace(trajectory, events=(*trajectory.events, *calls)))
    found = []
    for conversation in made:
        said = [m for m in conversation.messages if m["role"] == "assistant"]
        for message, train in zip(said, conversation.train, strict=True):
            asked = [c["function"]["arguments"] for c in message.get("tool_calls", ())]
            if train:
                found.append(json.loads(asked[0])["commands"] if asked else message["content"])
    return found


def test_the_last_call_is_taught_as_it_was_carried_out():
    once = [([USER], [])]
    assert taught(once, [asking(0, "{a.b(1), d}")], call(1, "{a.b(1),d}")) == ["{a.b(1), d}"]
    assert taught(once, [asking(0, "{nonsense}")], call(1, "{error_input}")) == ["{error_input}"]
    assert taught(once, [asking(0, "<x", "malformed")], call(1, "{d}")) == ["{d}"]


def test_what_the_last_call_does_not_show_is_not_taught():
    once, apart = [([USER], [])], [([USER], []), ([{**USER, "content": "v"}], [])]
    assert taught(once, [asking(0, "{x}")], call(1, "{d}", "inspect_home")) == [], "another tool"
    assert taught(once, [asking(0, "{x}")], call(0, "{d}")) == [], "a call before the turn"
    assert taught(once, [asking(0, "{x}")]) == [], "nothing was carried out"
    parts = [asking(0, "{a}"), asking(1, "{b}")]
    assert taught(apart, parts, call(2, "{a,b}")) == [], "an answer to two conversations"
    grown = [([USER], []), ([USER, parts[0]["message"], {"role": "tool", "content": "no"}], [])]
    assert taught(grown, parts, call(2, "{c}")) == ["{c}"], "the mistake before it is not"
