"""What the tests of language models share: endpoints, meters, and a client behind a door."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from engine.llm.endpoint import Endpoint
from engine.llm.gateway import Door, Gateway
from engine.llm.meter import Meter
from engine.llm.scripted import Answer, Refusal, Script, ScriptedEndpoint, Silence
from engine.llm.usage import Caps, Price

CANARY = "sk-canary-3f9d5b7a1c"
MODEL = "scripted"
PRICES = {MODEL: Price(input=2.0, cached_input=0.5, output=8.0)}
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
SAID = Answer("The lamp in the hall is on and the blinds are down.", usage=(1000, 400, 50))
"""600 · 2 + 400 · 0.5 + 50 · 8 = 1800 millionths of a dollar."""
HELLO = [{"role": "user", "content": "hello"}]


def endpoint(url: str, **changes: Any) -> Endpoint:
    return Endpoint(url, MODEL, **{"api_key": CANARY, "timeout_s": 20.0, **changes})


def meter(folder: Path, **changes: Any) -> Meter:
    return Meter(folder / "costs.jsonl", 3, PRICES, **changes)


@asynccontextmanager
async def client(door: Door, token: str | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client that speaks through the door's socket, as one in a sandbox does."""
    folder = os.open(door.socket.parent, os.O_PATH)
    try:
        path = f"/proc/self/fd/{folder}/{door.socket.name}"
        async with aiohttp.ClientSession(
            base_url="http://door",
            connector=aiohttp.UnixConnector(path=path),
            headers={"authorization": f"Bearer {token or door.token}"},
        ) as session:
            yield session
    finally:
        os.close(folder)


def chat_request(**changes: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": HELLO, **changes}


def response_request(**changes: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": HELLO, **changes}


def events(raw: bytes) -> list[dict[str, Any]]:
    """The objects of a stream of server-sent events."""
    lines = [line[5:].strip() for line in raw.split(b"\n") if line.startswith(b"data:")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


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
