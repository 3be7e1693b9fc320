"""The gateway where something goes wrong: endpoints, clients, and where the key could leak."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import aiohttp
import pytest
from llm_cases import (
    CANARY,
    CHAT,
    HELLO,
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

from engine.errors import ModelError
from engine.llm.chat import LLM
from engine.llm.gateway import Door, Gateway
from engine.llm.scripted import Answer, Refusal, Script, ScriptedEndpoint, Silence
from engine.llm.usage import Usage
from engine.llm.wire import answer
from engine.serving.client import Retry


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
