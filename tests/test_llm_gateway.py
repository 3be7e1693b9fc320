"""The gateway: what passes, what it costs, what is refused, who is kept apart."""

from __future__ import annotations

import asyncio
import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from llm_cases import (
    CANARY,
    CHAT,
    HELLO,
    MODEL,
    RESPONSES,
    SAID,
    always,
    chat_request,
    client,
    door,
    endpoint,
    events,
    lines,
    meter,
    response_request,
)

from engine.llm.gateway import Gateway
from engine.llm.ledger import entries
from engine.llm.scripted import Answer, Request, ScriptedEndpoint
from engine.llm.spoken import chat_events
from engine.llm.usage import Caps, Usage
from engine.llm.wire import answer


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


def test_a_token_of_any_bytes_is_a_wrong_one(tmp_path: Path) -> None:
    async def ask() -> bytes:
        async with door(always(Answer("x")), tmp_path) as (opened, _):
            reader, writer = await asyncio.open_unix_connection(opened.socket)
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n".encode()
            writer.write(head + b"authorization: Bearer \xff\xfe\r\ncontent-length: 0\r\n\r\n")
            said = await reader.readline()
            writer.close()
            return said

    assert asyncio.run(ask()).split()[1] == b"401"


def test_models_are_the_endpoints_own(tmp_path: Path) -> None:
    async def ask() -> dict[str, Any]:
        async with door(always(SAID), tmp_path) as (opened, _), client(opened) as http:
            reply = await http.get("/v1/models?client_version=1")
            return dict(await reply.json())

    assert [model["id"] for model in asyncio.run(ask())["data"]] == [MODEL]


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
