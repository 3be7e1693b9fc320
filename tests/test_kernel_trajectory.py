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
    read_lines,
    write_lines,
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


def test_lines_round_trip_and_name_a_bad_one(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    whole = [record([([{"role": "user", "content": "ü"}], [])], [reply(0)]), record([], [])]
    write_lines(path, whole)
    assert list(read_lines(path)) == whole
    path.write_text(path.read_text() + '{"schema": 99}\n')
    with pytest.raises(ValueError, match=r"rollouts.jsonl:3: .*schema 99"):
        list(read_lines(path))


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


def test_a_call_that_the_harness_changed_is_not_taught():
    user = {"role": "user", "content": "u"}

    def asked(commands):
        function = {"name": "final_answer", "arguments": json.dumps({"commands": commands})}
        return [{"id": "c", "type": "function", "function": function}]

    def carried_out(wrote, submitted):
        said = {**reply(0, ""), "message": {"role": "assistant", "tool_calls": asked(wrote)}}
        trajectory = record([([user], [])], [said])
        call = {"kind": "call", "turn": 1, "name": "final_answer", "observation": "recorded"}
        events = (*trajectory.events, {**call, "arguments": {"commands": submitted}})
        (conversation,) = conversations(replace(trajectory, events=events))
        return conversation.train == [True]

    assert carried_out("{a.b.c(1)}", "{a.b.c(1)}")
    assert carried_out("{a.b.c(1), d}", "{a.b.c(1),d}"), "white space apart"
    assert not carried_out("{nonsense}", "{error_input}")
