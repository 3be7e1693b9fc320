"""Replies as endpoints really write them: streams cut anywhere, fields of the wrong kind."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.llm.heard import Heard
from engine.llm.scripted import Answer, Request
from engine.llm.spoken import chat_body, chat_events, response_body, response_events
from engine.llm.wire import Events, answer, as_items, event_data, history, output, tokens

WORDS = """type response output choices delta message content text tool_calls function name
arguments index id call_id usage prompt_tokens completion_tokens input_tokens output_tokens item
prompt_tokens_details cached_tokens finish_reason messages input"""
NAMES = st.sampled_from(WORDS.split())
KINDS = st.sampled_from(
    ["response.output_text.delta", "response.output_item.done", "response.completed", "message"]
)
LEAVES = st.none() | st.booleans() | st.integers() | KINDS | st.sampled_from(["", "x", "\ud800"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5)
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=6)


@given(st.lists(OBJECTS, max_size=4))
def test_no_field_of_the_wrong_kind_breaks_the_reading(stream: list[dict[str, Any]]) -> None:
    heard = Heard()
    for event in stream:
        heard.event(event)
        counted = tokens(event)
        assert counted is None or all(isinstance(n, int) for n in counted)
        for call in answer(output(event)).calls:
            assert isinstance(call.arguments, str)
        history(event)
    assert isinstance(heard.bytes, int)
    answer(heard.output())


TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)
ANSWERS = st.builds(
    Answer,
    TEXTS,
    st.lists(st.tuples(st.just("f"), st.dictionaries(TEXTS, TEXTS, max_size=2)), max_size=2),
)


@pytest.mark.parametrize(
    ("events", "whole"), [(chat_events, chat_body), (response_events, response_body)]
)
@given(said=ANSWERS, cuts=st.lists(st.integers(0, 4000), max_size=8))
def test_a_stream_cut_anywhere_is_heard_as_the_whole_reply(
    events: Any, whole: Any, said: Answer, cuts: list[int]
) -> None:
    request = Request("", {"stream_options": {"include_usage": True}}, {}, 0)
    raw = "".join(events(request, said)).encode()
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    cutter, heard = Events(), Heard()
    for start, end in itertools.pairwise(places):
        for event in cutter.feed(raw[start:end]):
            data = event_data(event)
            if data is not None:
                heard.event(data)
    assert cutter.rest() == b""
    assert heard.whole
    body = whole(request, said)
    assert heard.tokens == tokens(body)
    assert answer(heard.output()) == answer(output(body))
    assert answer(heard.output()).text == said.text


def test_events_end_with_a_blank_line_of_either_kind() -> None:
    cutter = Events()
    assert list(cutter.feed(b"data: 1\r\n\r\ndata: 2\n\nda")) == [b"data: 1\n\n", b"data: 2\n\n"]
    assert list(cutter.feed(b"ta: 3\n\n")) == [b"data: 3\n\n"]


def test_a_line_end_may_come_in_two_parts() -> None:
    cutter = Events()
    assert list(cutter.feed(b"data: 1\r")) == []
    assert list(cutter.feed(b"\n\r")) == []
    assert list(cutter.feed(b"\ndata: 2")) == [b"data: 1\n\n"]


def test_chat_messages_become_items() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
    ]
    assert as_items(messages) == [
        {"role": "system", "content": "be brief"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "4"},
    ]


def test_counts_of_both_apis_are_read() -> None:
    chat = {"usage": {"prompt_tokens": 9, "completion_tokens": 5}}
    response = json.loads(
        '{"usage": {"input_tokens": 9, "output_tokens": 5,'
        ' "input_tokens_details": {"cached_tokens": 4}}}'
    )
    assert tokens(chat) == (9, 0, 5)
    assert tokens(response) == (9, 4, 5)
    assert tokens({"usage": None}) is None
