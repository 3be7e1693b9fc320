"""The gateway: what passes, what it costs, what is refused, what is left of a broken call."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from llm_cases import (
    CANARY,
    HELLO,
    MODEL,
    chat_request,
    client,
    endpoint,
    events,
    lines,
    meter,
    response_request,
)

from engine.errors import ModelError
from engine.llm.chat import LLM
from engine.llm.gateway import Door, Gateway
from engine.llm.ledger import entries
from engine.llm.scripted import Answer, Refusal, Request, Script, ScriptedEndpoint, Silence
from engine.llm.spoken import chat_events
from engine.llm.usage import Caps, Usage
from engine.llm.wire import answer
from engine.serving.client import Retry

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
SAID = Answer("The lamp in the hall is on and the blinds are down.", usage=(1000, 400, 50))
"""600 · 2 + 400 · 0.5 + 50 · 8 = 1800 millionths of a dollar."""


@asynccontextmanager
async def door(
    script: Script, folder: Path, caps: Caps | None = None, **changes: Any
) -> AsyncIterator[tuple[Door, ScriptedEndpoint]]:
    """A door of session k1 to an endpoint with the canary key that answers by ``script``."""
    with ScriptedEndpoint(script, key=CANARY, models=[MODEL]) as server:
        counted = meter(folder)
        where = endpoint(server.url, **changes)
        async with (
            Gateway(where, counted, folder / "sockets") as gateway,
            gateway.open("k1", "editors", caps, folder / "k1.jsonl") as opened,
        ):
            yield opened, server
        counted.close()


def always(answer: Answer | Refusal | Silence) -> Script:
    return lambda request: answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_replies_pass_and_are_counted(api: str, stream: bool, tmp_path: Path) -> None:
    path, request = {
        "chat": (CHAT, chat_request),
        "responses": (RESPONSES, response_request),
    }[api]

    async def ask() -> tuple[bytes, Usage]:
        async with door(always(SAID), tmp_path) as (opened, _), client(opened) as session:
            reply = await session.post(path, json=request(stream=stream))
            assert reply.status == 200
            return await reply.read(), opened.usage

    raw, _ = asyncio.run(ask())
    if stream:
        chunks = events(raw)
        if api == "chat":
            text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
        else:
            text = "".join(c.get("delta", "") for c in chunks)
        assert text == SAID.text
    else:
        assert SAID.text in raw.decode()
    [entry] = entries(tmp_path / "costs.jsonl")
    assert (entry.round, entry.role, entry.session, entry.model) == (3, "editors", "k1", MODEL)
    used = entry.usage
    assert (used.calls, used.prompt_tokens, used.cached_tokens, used.completion_tokens) == (
        1,
        1000,
        400,
        50,
    )
    assert used.usd == pytest.approx(0.0018)
    assert (used.unanswered, used.estimated, used.unpriced) == (0, 0, 0)
    asked, answered = lines(tmp_path / "k1.jsonl")
    assert asked["new"] == HELLO
    assert SAID.text in str(answered["reply"])
    assert answered["whole"] is True


def test_a_client_gets_the_counts_of_a_stream_only_where_it_asks(tmp_path: Path) -> None:
    async def ask() -> tuple[bytes, bytes]:
        async with door(always(SAID), tmp_path) as (opened, _), client(opened) as session:
            plain = await session.post(CHAT, json=chat_request(stream=True))
            options = {"include_usage": True}
            asked = await session.post(CHAT, json=chat_request(stream=True, stream_options=options))
            return await plain.read(), await asked.read()

    plain, asked = (events(raw) for raw in asyncio.run(ask()))
    assert all(chunk["choices"] for chunk in plain)
    assert asked[-1]["usage"]["prompt_tokens"] == 1000
    assert asked[:-1] == [{**chunk, "id": "chat_1"} for chunk in plain]


def test_tool_calls_stand_whole_in_the_transcript(tmp_path: Path) -> None:
    calls = [("shell", {"cmd": "ls"}), ("shell", {"cmd": "a command longer than one piece"})]

    async def ask() -> None:
        script = always(Answer("", calls))
        async with door(script, tmp_path) as (opened, _), client(opened) as session:
            for path, request in ((CHAT, chat_request), (RESPONSES, response_request)):
                await (await session.post(path, json=request(stream=True))).read()

    asyncio.run(ask())
    _, chat, _, response = lines(tmp_path / "k1.jsonl")
    wanted = [
        (f"call_0_{i}", name, json.dumps(arguments)) for i, (name, arguments) in enumerate(calls)
    ]
    assert [tuple(call) for call in map(astuple, answer(chat["reply"]).calls)] == wanted
    assert [call.arguments for call in answer(response["reply"]).calls] == [w[2] for w in wanted]


def test_only_what_is_new_is_written(tmp_path: Path) -> None:
    first = [{"role": "system", "content": "be brief"}, *HELLO]
    second = [*first, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "more"}]
    other = [{"role": "user", "content": "unlike"}]

    async def ask() -> None:
        async with door(always(SAID), tmp_path) as (opened, _), client(opened) as session:
            for messages in (first, second, other):
                tools = [{"type": "function", "function": {"name": "f"}}]
                body = chat_request(messages=messages, tools=tools)
                await (await session.post(CHAT, json=body)).read()

    asyncio.run(ask())
    asked = [line for line in lines(tmp_path / "k1.jsonl") if line["event"] == "request"]
    assert [(a["follows"], a["kept"], a["new"]) for a in asked] == [
        (None, 0, first),
        (1, 2, second[2:]),
        (None, 0, other),
    ]
    assert ["tools" in a for a in asked] == [True, False, False]


@pytest.mark.parametrize(
    ("caps", "said"),
    [
        (Caps(calls=2), "2 of 2 calls"),
        (Caps(tokens=2000), "2,100 of 2,000 tokens"),
        (Caps(usd=0.003), "0.0036 of 0.003 usd"),
    ],
)
def test_a_cap_refuses_before_the_call(caps: Caps, said: str, tmp_path: Path) -> None:
    async def ask() -> tuple[list[int], dict[str, Any], int, str]:
        async with door(always(SAID), tmp_path, caps) as (opened, server), client(opened) as http:
            replies = [await http.post(CHAT, json=chat_request()) for _ in range(4)]
            body = await replies[-1].json()
            return [r.status for r in replies], body["error"], len(server.requests), opened.trouble

    statuses, error, sent, trouble = asyncio.run(ask())
    assert statuses == [200, 200, 403, 403]
    assert error["code"] == "budget_spent"
    assert said in error["message"] and "stop" in error["message"]
    assert "editors k1" in trouble and said in trouble
    assert sent == 2
    assert sum((e.usage for e in entries(tmp_path / "costs.jsonl")), Usage()).calls == 2


def test_calls_at_once_keep_to_a_cap_on_calls(tmp_path: Path) -> None:
    slow = always(Answer("later", delay_s=0.2))

    async def ask() -> tuple[list[int], int]:
        async with door(slow, tmp_path, Caps(calls=3)) as (opened, server), client(opened) as http:
            replies = await asyncio.gather(
                *(http.post(CHAT, json=chat_request()) for _ in range(8))
            )
            return [reply.status for reply in replies], len(server.requests)

    statuses, sent = asyncio.run(ask())
    assert sorted(statuses) == [200] * 3 + [403] * 5
    assert sent == 3


def test_nothing_else_is_open(tmp_path: Path) -> None:
    async def ask() -> tuple[list[int], int]:
        async with door(always(SAID), tmp_path) as (opened, server):
            async with client(opened) as http:
                replies = [
                    await http.get(CHAT),
                    await http.post("/v1/embeddings", json={}),
                    await http.post("/v1/../admin", json={}),
                    await http.get("http://door/"),
                    await http.post(CHAT, data=b"{"),
                    await http.post(CHAT, json=[1]),
                    await http.post(CHAT, json=chat_request(model="dearer")),
                ]
            async with client(opened, token="guessed") as stranger:
                replies.append(await stranger.post(CHAT, json=chat_request()))
            return [reply.status for reply in replies], len(server.requests)

    statuses, sent = asyncio.run(ask())
    assert statuses == [404, 404, 404, 404, 400, 400, 404, 401]
    assert sent == 0
    assert entries(tmp_path / "costs.jsonl") == []


def test_models_are_the_endpoints_own(tmp_path: Path) -> None:
    async def ask() -> dict[str, Any]:
        async with door(always(SAID), tmp_path) as (opened, _), client(opened) as http:
            reply = await http.get("/v1/models?client_version=1")
            return dict(await reply.json())

    assert [model["id"] for model in asyncio.run(ask())["data"]] == [MODEL]


@pytest.mark.parametrize(
    ("refusal", "mend"),
    [
        (Refusal(401, f"wrong key {CANARY}"), "llm.api_key_env"),
        (Refusal(404, "no such model"), "llm.model ('scripted')"),
        (Refusal(429, "slow down", headers={"retry-after": "7"}), "rate limit"),
        (Refusal(500, "oops"), "the endpoint's own log"),
        (Refusal(400, "maximum context length is 8192 tokens"), "llm.context"),
    ],
)
def test_a_refusal_passes_and_costs_nothing(refusal: Refusal, mend: str, tmp_path: Path) -> None:
    async def ask() -> tuple[int, dict[str, str], str, Door]:
        async with door(always(refusal), tmp_path) as (opened, _), client(opened) as http:
            reply = await http.post(CHAT, json=chat_request(stream=True))
            return reply.status, dict(reply.headers), await reply.text(), opened

    status, headers, text, opened = asyncio.run(ask())
    assert status == refusal.status
    assert {k.lower(): v for k, v in headers.items()}.get("retry-after") == refusal.headers.get(
        "retry-after"
    )
    assert mend in opened.trouble
    used = opened.usage
    assert (used.calls, used.unanswered, used.tokens, used.usd) == (1, 1, 0, 0)
    written = (tmp_path / "k1.jsonl").read_text() + (tmp_path / "costs.jsonl").read_text()
    assert CANARY not in text + opened.trouble + written + repr(opened.endpoint)


@pytest.mark.parametrize(
    ("script", "timeout_s", "status", "why"),
    [
        (Silence(), 0.3, 504, "no answer within 0.3 s (llm.timeout_s)"),
        (Answer("a long text", cut=30), 20, 502, "no answer ("),
    ],
)
def test_an_endpoint_that_breaks_off_is_an_error(
    script: Silence | Answer, timeout_s: float, status: int, why: str, tmp_path: Path
) -> None:
    async def ask() -> tuple[int, str, Usage]:
        async with (
            door(always(script), tmp_path, timeout_s=timeout_s) as (opened, _),
            client(opened) as http,
        ):
            reply = await http.post(CHAT, json=chat_request())
            return reply.status, opened.trouble, opened.usage

    got, trouble, used = asyncio.run(ask())
    assert got == status
    assert why in trouble
    assert used.calls == 1


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_a_cut_stream_is_cut_for_the_client_and_estimated(api: str, tmp_path: Path) -> None:
    long = Answer("x" * 240, cut=7)

    async def ask() -> tuple[bytes, Usage]:
        async with door(always(long), tmp_path) as (opened, _), client(opened) as http:
            body = chat_request(stream=True) if api == CHAT else response_request(stream=True)
            reply = await http.post(api, json=body)
            got = b""
            with pytest.raises(aiohttp.ClientPayloadError):
                async for data in reply.content.iter_any():
                    got += data
            reply.close()
            return got, opened.usage

    got, used = asyncio.run(ask())
    assert len(events(got)) == 7
    heard = 6 if api == CHAT else 4  # after the opening events
    assert (used.estimated, used.completion_tokens) == (1, heard * 24 // 4)
    assert used.prompt_tokens > 10
    [_, answered] = lines(tmp_path / "k1.jsonl")
    assert answered["whole"] is False
    assert answer(answered["reply"]).text == "x" * 24 * heard


def test_a_stream_comes_as_it_is_made(tmp_path: Path) -> None:
    """The endpoint holds back the second event until the client has read the first."""
    first, second = chat_events(Request("", {}, {}, 0), Answer("hello"))[:2]

    async def ask() -> tuple[bytes, bytes]:
        has_read = asyncio.Event()

        async def answer_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(first.encode())
            await has_read.wait()
            writer.write(second.encode())
            writer.close()

        server = await asyncio.start_server(answer_slowly, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        async with (
            Gateway(endpoint(f"http://127.0.0.1:{port}/v1"), meter(tmp_path), tmp_path) as gateway,
            gateway.open("k1", "editors", None, tmp_path / "k1.jsonl") as opened,
            client(opened) as http,
        ):
            reply = await http.post(CHAT, json=chat_request(stream=True))
            begin = await reply.content.readany()
            assert opened.usage == Usage(calls=1, unanswered=1)
            has_read.set()
            rest = await reply.content.read()
        server.close()
        return begin, rest

    assert asyncio.run(ask()) == (first.encode(), second.encode())


def test_a_client_that_leaves_still_pays(tmp_path: Path) -> None:
    slow = Answer("x" * 2400, pause_s=0.05)

    async def ask() -> Usage:
        async with door(always(slow), tmp_path) as (opened, _):
            async with client(opened) as http:
                reply = await http.post(CHAT, json=chat_request(stream=True))
                await reply.content.readany()
                await reply.content.readany()
                await reply.content.readany()
                reply.close()
            while opened.usage.unanswered:
                await asyncio.sleep(0.01)
            return opened.usage

    used = asyncio.run(ask())
    assert (used.calls, used.estimated) == (1, 1)
    assert 12 <= used.completion_tokens < 600


def test_a_closed_door_ends_what_is_in_flight(tmp_path: Path) -> None:
    async def ask() -> tuple[Usage, Path]:
        async with door(always(Silence()), tmp_path) as (opened, server), client(opened) as http:
            asked = asyncio.ensure_future(http.post(CHAT, json=chat_request()))
            while not server.requests:
                await asyncio.sleep(0.01)
            await opened.close()
            with pytest.raises(aiohttp.ClientError):
                await asked
            with pytest.raises(aiohttp.ClientError):
                await http.post(CHAT, json=chat_request())
            return opened.usage, opened.socket

    used, path = asyncio.run(ask())
    assert (used.calls, used.estimated, used.completion_tokens) == (1, 1, 0)
    assert not path.exists()


def test_sessions_side_by_side_are_kept_apart(tmp_path: Path) -> None:
    def named(request: Request) -> Answer:
        return Answer(f"hello {request.prompt}", usage=(10, 0, 1), pause_s=0.005)

    async def one(gateway: Gateway, name: str) -> Usage:
        path = tmp_path / f"{name}.jsonl"
        async with gateway.open(name, "editors", None, path) as opened, client(opened) as http:
            for _ in range(5):
                body = chat_request(messages=[{"role": "user", "content": name}], stream=True)
                reply = await http.post(CHAT, json=body)
                chunks = events(await reply.read())
                said = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
                assert said == f"hello {name}"
            return opened.usage

    async def every() -> list[Usage]:
        with ScriptedEndpoint(named, key=CANARY) as server:
            counted = meter(tmp_path)
            async with Gateway(endpoint(server.url), counted, tmp_path / "sockets") as gateway:
                return await asyncio.gather(*(one(gateway, f"k{n}") for n in range(8)))

    for used in asyncio.run(every()):
        assert (used.calls, used.prompt_tokens, used.completion_tokens) == (5, 50, 5)
    assert len(entries(tmp_path / "costs.jsonl")) == 40
    assert list((tmp_path / "sockets").iterdir()) == []
    for n in range(8):
        text = (tmp_path / f"k{n}.jsonl").read_text()
        assert not any(f"hello k{other}" in text for other in range(8) if other != n)


def test_a_session_that_hoards_connections_harms_no_other(tmp_path: Path) -> None:
    async def ask() -> tuple[int, int]:
        with ScriptedEndpoint(always(SAID), key=CANARY) as server:
            async with (
                Gateway(endpoint(server.url), meter(tmp_path), tmp_path / "s") as gateway,
                gateway.open("k1", "editors", None, tmp_path / "1") as greedy,
                gateway.open("k2", "editors", None, tmp_path / "2") as other,
            ):
                held = [await asyncio.open_unix_connection(str(greedy.socket)) for _ in range(200)]
                while (shut := sum(reader.at_eof() for reader, _ in held)) < 200 - 64:
                    await asyncio.sleep(0.01)
                async with client(other) as http:
                    reply = await http.post(CHAT, json=chat_request())
                for _, writer in held:
                    writer.close()
                return shut, reply.status

    assert asyncio.run(ask()) == (200 - 64, 200)


def test_a_socket_may_lie_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)

    async def ask() -> int:
        with ScriptedEndpoint(always(SAID), key=CANARY) as server:
            async with (
                Gateway(endpoint(server.url), meter(tmp_path), deep) as gateway,
                gateway.open("k1", "editors", None, tmp_path / "1") as opened,
                client(opened) as http,
            ):
                return (await http.post(CHAT, json=chat_request())).status

    assert asyncio.run(ask()) == 200


def test_the_key_stands_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not even where everything is logged and the endpoint repeats the key."""
    caplog.set_level(logging.DEBUG)
    steps = [
        Answer(f"your key is {CANARY}"),
        Refusal(401, f"wrong: {CANARY}"),
        Silence(0.0),
        Answer("x" * 99, cut=2),
    ]

    async def ask() -> str:
        shown = ""
        script: Script = lambda request: steps[request.number % len(steps)]  # noqa: E731
        async with door(script, tmp_path) as (opened, server), client(opened) as http:
            for stream in (False, True):
                for _ in steps:
                    reply = await http.post(CHAT, json=chat_request(stream=stream))
                    with contextlib.suppress(aiohttp.ClientError):
                        shown += await reply.text()
                    reply.close()
                    shown += str(reply.headers) + opened.trouble
            llm = LLM(opened.endpoint, meter(tmp_path), Retry(attempts=1))
            for _ in steps:
                with contextlib.suppress(ModelError):
                    await llm.ask("curator", HELLO)
            assert len(server.requests) == 12
        return shown

    shown = asyncio.run(ask())
    assert "your key is [key]" in shown
    kept = "".join(path.read_text() for path in tmp_path.glob("*.jsonl"))
    assert "your key is [key]" in kept
    for text in (shown, kept, caplog.text):
        assert text
        assert CANARY not in text


def test_a_netrc_entry_does_not_take_the_keys_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def ask() -> int:
        async with door(always(SAID), tmp_path) as (opened, _), client(opened) as http:
            return (await http.post(CHAT, json=chat_request())).status

    assert asyncio.run(ask()) == 200


def test_a_redirect_is_not_followed_with_the_key(tmp_path: Path) -> None:
    async def ask() -> tuple[int, int]:
        with ScriptedEndpoint(always(SAID)) as elsewhere:
            away = Refusal(307, headers={"location": f"{elsewhere.url}/chat/completions"})
            async with door(always(away), tmp_path) as (opened, _), client(opened) as http:
                reply = await http.post(CHAT, json=chat_request(), allow_redirects=False)
                return reply.status, len(elsewhere.requests)

    assert asyncio.run(ask()) == (307, 0)


def test_deep_nonsense_is_refused(tmp_path: Path) -> None:
    async def ask() -> int:
        async with door(always(SAID), tmp_path) as (opened, _), client(opened) as http:
            return (await http.post(CHAT, data=b"[" * 100_000)).status

    assert asyncio.run(ask()) == 400
