"""The scripted endpoint, as the official client sees it, and in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import openai
import pytest

from engine.llm.scripted import Answer, Refusal, Request, Script, ScriptedEndpoint, Silence

ANSWER = Answer("one piece, and a second one.", [("f", {"a": 1}), ("g", "{broken")], (9, 4, 5))


def client(endpoint: ScriptedEndpoint, key: str = "k") -> openai.OpenAI:
    return openai.OpenAI(base_url=endpoint.url, api_key=key, max_retries=0, timeout=10)


def always(answer: Answer | Refusal | Silence) -> Script:
    return lambda request: answer


def test_chat_whole_and_streamed_say_the_same() -> None:
    with ScriptedEndpoint(always(ANSWER)) as endpoint, client(endpoint) as asking:
        whole = asking.chat.completions.create(model="m", messages=[])
        with asking.chat.completions.stream(
            model="m", messages=[], stream_options={"include_usage": True}
        ) as stream:
            streamed = stream.get_final_completion()
    for reply in (whole, streamed):
        message = reply.choices[0].message
        assert message.content == ANSWER.text
        calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or ()]
        assert calls == [("f", '{"a": 1}'), ("g", "{broken")]
        assert reply.choices[0].finish_reason == "tool_calls"
        assert reply.usage is not None and reply.usage.prompt_tokens_details is not None
        assert reply.usage.prompt_tokens_details.cached_tokens == 4
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (9, 5)


def test_responses_whole_and_streamed_say_the_same() -> None:
    with ScriptedEndpoint(always(ANSWER)) as endpoint, client(endpoint) as asking:
        whole = asking.responses.create(model="m", input="hello")
        with asking.responses.stream(model="m", input="hello") as stream:
            streamed = stream.get_final_response()
    for reply in (whole, streamed):
        assert reply.output_text == ANSWER.text
        calls = [item for item in reply.output if item.type == "function_call"]
        assert [(c.name, c.arguments) for c in calls] == [("f", '{"a": 1}'), ("g", "{broken")]
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 5)


def test_a_script_chooses_by_the_request() -> None:
    def script(request: Request) -> Answer | Refusal:
        if request.number == 0:
            return Refusal(429, "later", headers={"retry-after": "3"})
        return Answer(f"{request.prompt}, {request.results}, {request.body['model']}")

    messages = [
        {"role": "user", "content": "sum"},
        {"role": "tool", "tool_call_id": "c", "content": "4"},
    ]
    with ScriptedEndpoint(script) as endpoint, client(endpoint) as asking:
        with pytest.raises(openai.RateLimitError) as refused:
            asking.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
        said = asking.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
    assert refused.value.response.headers["retry-after"] == "3"
    assert said.choices[0].message.content == "sum, ('4',), m"


def test_keys_and_models_are_checked() -> None:
    with ScriptedEndpoint(always(ANSWER), key="right", models=["m"]) as endpoint:
        with client(endpoint) as asking, pytest.raises(openai.AuthenticationError):
            asking.chat.completions.create(model="m", messages=[])
        with client(endpoint, "right") as asking:
            with pytest.raises(openai.NotFoundError):
                asking.chat.completions.create(model="other", messages=[])
            assert [model.id for model in asking.models.list()] == ["m"]
            with pytest.raises(openai.NotFoundError):
                asking.embeddings.create(model="m", input="x")
        assert endpoint.requests == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_breaks_the_connection(stream: bool) -> None:
    with (
        ScriptedEndpoint(always(Answer("x" * 99, cut=3))) as endpoint,
        client(endpoint) as asking,
        pytest.raises(openai.APIConnectionError),
    ):
        list(asking.chat.completions.create(model="m", messages=[], stream=stream))


def test_a_silent_endpoint_is_left_at_once() -> None:
    began = time.monotonic()
    with (
        ScriptedEndpoint(always(Silence())) as endpoint,
        client(endpoint) as asking,
        pytest.raises(openai.APITimeoutError),
    ):
        asking.with_options(timeout=0.2).chat.completions.create(model="m", messages=[])
    assert time.monotonic() - began < 60  # and not the silence's hour


def test_it_runs_as_a_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from engine.llm.scripted import Answer\n"
        "def script(request):\n    return Answer('hello from a script')\n"
    )
    command = [sys.executable, "-m", "engine.llm.scripted", "mine:script", "--key", "k"]
    with subprocess.Popen(
        [*command, "--model", "m"],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[1]}"},
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with openai.OpenAI(base_url=url, api_key="k") as asking:
            said = asking.chat.completions.create(model="m", messages=[])
        process.terminate()
    assert said.choices[0].message.content == "hello from a script"
