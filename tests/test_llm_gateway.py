"""The gateway: what passes, what it costs, what is refused, what is left of a broken call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

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

from engine.llm.gateway import Door, Gateway
from engine.llm.ledger import entries
from engine.llm.scripted import Answer, Refusal, Script, ScriptedEndpoint, Silence
from engine.llm.usage import Caps, Usage

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
        "chat": ("/v1/chat/completions", chat_request),
        "responses": ("/v1/responses", response_request),
    }[api]

    async def ask() -> tuple[bytes, Usage]:
        async with door(always(SAID), tmp_path) as (opened, _), client(opened) as session:
            async with session.post(path, json=request(stream=stream)) as reply:
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
