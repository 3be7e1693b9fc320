"""The one client against an endpoint that answers, refuses, breaks off and lies."""

import asyncio
from collections.abc import Sequence
from typing import Any

import chat_server
import pytest
from chat_server import hang_up, refuse, reply, serving

from engine.serving.client import Endpoint, OpenAIModel, Retry
from engine.serving.process import free_port
from engine.serving.wire import MAX_IMAGE
from kernel.contract import (
    Completion,
    ContextLengthExceeded,
    Message,
    ModelUnavailable,
    RequestRefused,
    Sampling,
)

FAST = Retry(attempts=3, base_s=0.01)
HELLO: list[Message] = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def complete(
    url: str,
    messages: Sequence[Message] = HELLO,
    sampling: Sampling | None = None,
    tools: Sequence[dict[str, Any]] = (),
    **endpoint: Any,
) -> Completion:
    async def ask() -> Completion:
        model = OpenAIModel(Endpoint(url, "m", **endpoint), timeout_s=5, retry=FAST)
        try:
            return await model.complete(messages, tools, sampling or Sampling(), seed=7)
        finally:
            await model.close()

    return asyncio.run(ask())


def answered(*steps: chat_server.Step, **kwargs: Any) -> tuple[Completion, list[dict[str, Any]]]:
    with serving(*steps) as server:
        return complete(server.url, **kwargs), server.requests


def failure(*steps: chat_server.Step, **kwargs: Any) -> tuple[Exception, int]:
    with serving(*steps) as server:
        with pytest.raises(Exception) as caught:
            complete(server.url, **kwargs)
        return caught.value, len(server.requests)


def test_an_answer_carries_text_calls_and_usage() -> None:
    got, [sent] = answered(reply("thinking", ("f", '{"a": 1}')), tools=[TOOL])
    assert (got.content, got.malformed, got.prompt_tokens, got.completion_tokens) == (
        "thinking",
        False,
        7,
        3,
    )
    assert [(c.name, c.arguments) for c in got.tool_calls] == [("f", '{"a": 1}')]
    assert sent["tools"] == [TOOL]


def test_sampling_and_seed_go_with_every_request() -> None:
    _, [sent] = answered(reply("x"), sampling=Sampling(0.7, 0.9, 20, 33))
    wanted = {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "max_tokens": 33, "seed": 7}
    assert {name: sent[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    "first", [refuse(429, "slow down", retry_after="0"), refuse(500, "oops"), hang_up]
)
def test_what_passes_is_tried_again(first: chat_server.Step) -> None:
    got, sent = answered(first, first, reply("at last"))
    assert got.content == "at last"
    assert len(sent) == 3


def test_an_endpoint_that_stays_broken_is_no_score() -> None:
    error, tries = failure(refuse(503, "worker is dead"))
    assert isinstance(error, ModelUnavailable)
    assert "worker is dead" in str(error)
    assert tries == 3


def test_a_dead_port_is_unavailable_with_cause_and_mend() -> None:
    with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1.*serving\.base_url"):
        complete(f"http://127.0.0.1:{free_port()}/v1")


def test_a_wrong_key_is_said_at_once() -> None:
    error, tries = failure(refuse(401, "bad key"))
    assert isinstance(error, ModelUnavailable)
    assert "api_key_env" in str(error)
    assert tries == 1


@pytest.mark.parametrize(
    "step",
    [
        refuse(400, "too long", "context_length_exceeded"),
        refuse(400, "This model's maximum context length is 4096 tokens"),
    ],
)
def test_a_prompt_over_the_context_is_the_harness_s(step: chat_server.Step) -> None:
    error, tries = failure(step)
    assert isinstance(error, ContextLengthExceeded)
    assert tries == 1


def test_other_refused_requests_are_the_harness_s_too() -> None:
    error, tries = failure(refuse(422, "no images here"))
    assert isinstance(error, RequestRefused)
    assert tries == 1


def test_other_weights_are_never_scored() -> None:
    error, _ = failure(reply("x", model="another"), served_as="m")
    assert isinstance(error, ModelUnavailable)
    assert "'another' answered" in str(error)


@pytest.mark.parametrize(
    "step",
    [
        reply('<tool_call>{"name": "f", "arguments": {"a": </tool_call>'),
        reply('<tool_call>{"name": "f", "arguments": {}}'),
        reply("", ("f", '{"a": 1')),
        reply("", ("f", "[1]")),
    ],
    ids=["broken in the text", "never closed", "broken and parsed", "no object"],
)
def test_a_broken_call_is_a_malformed_turn(step: chat_server.Step) -> None:
    got, _ = answered(step)
    assert got.malformed
    assert got.tool_calls == ()
    assert got.content.startswith('<tool_call>{"name": "f", "arguments": ')


def test_calls_left_in_the_text_are_parsed() -> None:
    got, _ = answered(reply('ok <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'))
    assert (got.content, got.malformed) == ("ok", False)
    assert [(c.name, c.arguments) for c in got.tool_calls] == [("f", '{"a": 1}')]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "no role"},
        {"role": "user", "content": 3},
        {"role": "user", "content": "x", "tool_calls": [{"function": {"name": "f"}}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
        {"role": "assistant", "tool_calls": [{"name": "f"}]},
        {"role": "assistant", "tool_calls": 5},
        {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "f", "arguments": '{"a":' * 100_000}}],
        },
        {"role": "user", "content": ["text"]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]},
        {"role": "user", "content": [image("http://169.254.169.254/latest/meta-data")]},
        {"role": "user", "content": [image("file:///etc/passwd")]},
        {"role": "user", "content": [image("data:text/html;base64,AAAA")]},
        {"role": "user", "content": [image("data:image/png;base64,AAAA\nhttp://x")]},
        {"role": "user", "content": [image("data:image/png;base64," + "A" * MAX_IMAGE)]},
        {"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png,x"}]},
        "text",
    ],
)
def test_messages_that_nobody_could_read_never_leave(message: Any) -> None:
    with serving(reply("x")) as server:
        with pytest.raises(RequestRefused, match=r"messages\[1\]"):
            complete(server.url, [*HELLO, message])
        assert server.requests == []


def test_text_and_image_parts_are_sent_without_what_else_they_hold() -> None:
    good = "data:image/png;base64,iVBORw0KGgo="
    parts = [{"type": "text", "text": "see", "x": 1}, {**image(good), "uuid": "file:///etc"}]
    _, [sent] = answered(reply("x"), messages=[{"role": "user", "content": parts}])
    assert sent["messages"][0]["content"] == [{"type": "text", "text": "see"}, image(good)]


def test_one_client_serves_several_event_loops() -> None:
    with serving(reply("x")) as server:
        model = OpenAIModel(Endpoint(server.url, "m"), retry=FAST)

        async def ask() -> str:
            try:
                return (await model.complete(HELLO, (), Sampling(), 0)).content
            finally:
                await model.close()

        assert [asyncio.run(ask()), asyncio.run(ask())] == ["x", "x"]
