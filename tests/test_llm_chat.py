"""A language model asked by the engine: both APIs, retries, and what an error says."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from llm_cases import CANARY, HELLO, MODEL, endpoint, meter

from engine.errors import BudgetSpent, ConfigError, ModelError
from engine.llm.chat import LLM, ContextOverflow, Reply
from engine.llm.dialogue import Dialogue, tool
from engine.llm.endpoint import configured
from engine.llm.meter import Meter
from engine.llm.scripted import Answer, Refusal, Request, ScriptedEndpoint, Silence
from engine.llm.usage import Caps, Usage
from engine.params import LLMParams, parse
from engine.serving.client import Retry
from kernel.contract import ToolCall

Step = Answer | Refusal | Silence
FAST = Retry(attempts=3, base_s=0.01)
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
BOTH = pytest.mark.parametrize("api", ["chat", "responses"])


def asked(
    counted: Meter, *steps: Step, messages: Any = HELLO, tools: Any = (), **changes: Any
) -> tuple[Reply, list[Request]]:
    """The curator's question to an endpoint that plays ``steps`` in turn, the last for ever."""
    with ScriptedEndpoint(
        lambda request: steps[min(request.number, len(steps) - 1)], key=CANARY, models=[MODEL]
    ) as server:
        llm = LLM(endpoint(server.url, **changes), counted, FAST)
        return asyncio.run(llm.ask("curator", messages, tools, session="r003")), server.requests


@BOTH
def test_a_reply_has_text_calls_and_usage(api: str, tmp_path: Path) -> None:
    step = Answer("I look.", [("read", {"id": 3})], usage=(1000, 400, 50))
    reply, [sent] = asked(meter(tmp_path), step, tools=[TOOL], api=api, reasoning_effort="high")
    assert reply.text == "I look."
    assert [(c.id, c.name, json.loads(c.arguments)) for c in reply.calls] == [
        ("call_0_0", "read", {"id": 3})
    ]
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens) == (1000, 400)
    assert reply.usage.usd == pytest.approx(0.0018)
    assert sent.path == {"chat": "/v1/chat/completions", "responses": "/v1/responses"}[api]
    effort = sent.body.get("reasoning_effort") or sent.body["reasoning"]["effort"]
    assert effort == "high"


@BOTH
def test_a_conversation_goes_on_with_the_tools_results(api: str, tmp_path: Path) -> None:
    counted = meter(tmp_path)
    first, _ = asked(counted, Answer("", [("read", {"id": 3})]), tools=[TOOL], api=api)
    result = {"role": "tool", "tool_call_id": first.calls[0].id, "content": "the file"}
    messages = [*HELLO, first.message, result, {"role": "user", "content": "and?"}]
    reply, [sent] = asked(counted, Answer("so."), messages=messages, tools=[TOOL], api=api)
    assert reply.text == "so."
    assert sent.results == ("the file",)
    assert '"call_0_0"' in sent.text and "and?" in sent.prompt
    assert counted.spent("curator").calls == 2


@BOTH
@pytest.mark.parametrize(
    "passing",
    [Refusal(429, headers={"retry-after": "0"}), Refusal(503), Answer("half a reply", cut=20)],
)
def test_what_passes_is_tried_again_and_each_try_counts(
    api: str, passing: Step, tmp_path: Path
) -> None:
    counted = meter(tmp_path)
    last = Answer("at last", usage=(7, 0, 3))
    reply, sent = asked(counted, passing, passing, last, api=api)
    assert reply.text == "at last"
    assert len(sent) == 3
    used = counted.spent()
    assert (used.calls, used.unanswered, used.tokens) == (3, 2, 10)


@pytest.mark.parametrize(
    ("step", "kind", "tries", "said"),
    [
        (Refusal(401, f"bad key {CANARY}"), ModelError, 1, "llm.api_key_env"),
        (Refusal(404, "unknown"), ModelError, 1, "llm.model ('scripted')"),
        (Refusal(400, "no", "context_length_exceeded"), ContextOverflow, 1, "answered 400"),
        (Refusal(400, "over the maximum context length"), ContextOverflow, 1, "llm.context"),
        (Refusal(500, "worker died"), ModelError, 3, "worker died"),
        (Silence(0.0), ModelError, 3, "no answer"),
        (Silence(), ModelError, 3, "no answer within 0.2 s (llm.timeout_s), 3 times"),
    ],
)
def test_an_error_names_role_cause_and_how_to_go_on(
    step: Step, kind: type[ModelError], tries: int, said: str, tmp_path: Path
) -> None:
    counted = meter(tmp_path)
    with pytest.raises(ModelError) as error:
        asked(counted, step, timeout_s=0.2 if said.startswith("no answer w") else 20.0)
    assert type(error.value) is kind
    text = str(error.value)
    assert text.startswith("curator r003: http://127.0.0.1:")
    assert said in text and "`dvc repro` goes on" in text
    assert CANARY not in text
    assert counted.spent() == Usage(tries, seconds=counted.spent().seconds, unanswered=tries)


def test_half_a_character_stops_nobody(tmp_path: Path) -> None:
    """A reply that was cut in an emoji, in its text or inside a call's arguments."""
    say = tool("say", "Say it.", {"text": {"type": "string"}})
    steps = iter([Answer("half \ud83d"), Answer("", [("say", {"text": "half \ud83d"})])])

    async def ask(url: str) -> list[ToolCall]:
        llm = LLM(endpoint(url), meter(tmp_path), FAST)
        dialogue = Dialogue(llm, "curator", [{"role": "user", "content": "begin"}])
        assert await dialogue.calls([say]) == []
        assert "half ?" in str(dialogue.messages)
        return await dialogue.calls([say])

    with ScriptedEndpoint(lambda request: next(steps), key=CANARY, models=[MODEL]) as server:
        [call] = asyncio.run(ask(server.url))
    assert call.arguments == {"text": "half ?"}


def test_a_cap_refuses_before_the_call(tmp_path: Path) -> None:
    counted = meter(tmp_path, roles={"curator": Caps(calls=1)})
    asked(counted, Answer("once"))
    with pytest.raises(BudgetSpent, match="curator r003: the role's budget"):
        asked(counted, Answer("twice"))


def test_a_reply_without_counts_is_estimated(tmp_path: Path) -> None:
    reply, _ = asked(meter(tmp_path), Answer("a text", usage=()))
    assert reply.usage.estimated == 1
    assert reply.usage.prompt_tokens > 0 and reply.usage.completion_tokens > 0


def test_a_dead_port_is_said(tmp_path: Path) -> None:
    with ScriptedEndpoint(lambda request: Answer()) as server:
        url = server.url
    llm = LLM(endpoint(url), meter(tmp_path), FAST)
    with pytest.raises(ModelError, match=r"curator: http://127\.0\.0\.1.*no answer \("):
        asyncio.run(llm.ask("curator", HELLO))


def test_the_endpoint_comes_from_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "{base_url: http://host/v1, api_key_env: SOME_KEY, model: m, api: responses}"
    params = parse(f"llm: {text}", "params.yaml").llm
    with pytest.raises(ConfigError, match=r"curator: the variable SOME_KEY \(llm.api_key_env\)"):
        configured(params, "curator")
    monkeypatch.setenv("SOME_KEY", CANARY + "\n")
    found = configured(params, "curator", "own")
    assert (found.model, found.api_key, found.api) == ("own", CANARY, "responses")
    assert configured(params, "curator").model == "m"
    assert CANARY not in repr(found)
    with pytest.raises(ConfigError, match=r"curator: llm\.base_url is not set"):
        configured(LLMParams(), "curator")
    with pytest.raises(ConfigError, match=r"set llm\.model or curator\.model"):
        configured(LLMParams(base_url="http://host/v1"), "curator")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("llm: {modl: x}", "unknown key 'llm.modl'; did you mean 'model'?"),
        ("llm: {caps: {token: 1}}", "unknown key 'llm.caps.token'; did you mean 'tokens'?"),
        ("llm: {prices: {m: {inptu: 1}}}", "llm.prices.m.input: Field required"),
        (
            "llm: {prices: {m: {input: 1, output: 1, cached: 1}}}",
            "unknown key 'llm.prices.m.cached'; did you mean 'cached_input'?",
        ),
        ("llm: {base_url: 'http://me:k3y@host/v1'}", "llm.base_url holds a user or key"),
    ],
)
def test_a_mistake_in_the_parameters_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "params.yaml")
    assert said in str(error.value)
    assert "k3y" not in str(error.value)


def test_the_documented_parameters_are_the_real_ones() -> None:
    text = (Path(__file__).parents[1] / "docs" / "LANGUAGE_MODELS.md").read_text("utf-8")
    [example] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    params = parse(example, "docs")
    assert params.llm.prices["some-model"].price().usd(1_000_000, 0, 0) == 1.25
    assert (params.curator.model, params.curator.caps.calls) == ("small-model", 60)
