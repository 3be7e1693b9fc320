"""Models by address: what a rollout on another machine gets is what a local one gets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from engine.evaluation.exchange import DistantModel, Exchange
from kernel.contract import (
    Completion,
    ContextLengthExceeded,
    Message,
    ModelUnavailable,
    RawToolCall,
    RequestRefused,
    Sampling,
)

ASKED: list[Message] = [{"role": "user", "content": "turn on the light \ud800 ü"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
DRAWN = Sampling(1.0, 0.95, 20, 16)
SAID = Completion(
    "ü <tool_call>", (RawToolCall("c1", "f", '{"a": [1, null]}'),), True, "length", 7, 3, "hm"
)


class Speaker:
    def __init__(self, said: Completion | Exception) -> None:
        self.said, self.asked = said, []  # type: Any, list[Any]

    async def complete(
        self, messages: Sequence[Message], tools: Any, sampling: Sampling, seed: int
    ) -> Completion:
        self.asked.append((messages, tools, sampling, seed))
        if isinstance(self.said, Exception):
            raise self.said
        return self.said  # type: ignore[no-any-return]


def through(model: Speaker, token: str | None = None, live: bool = True) -> Completion:
    async def scene() -> Completion:
        exchange = Exchange()
        await exchange.start("127.0.0.1")
        try:
            with exchange.offered(model) as own:
                if not live:
                    await exchange.stop()
                distant = DistantModel(exchange.url, token or own)
                return await distant.complete(ASKED, TOOLS, DRAWN, 5)
        finally:
            await exchange.stop()

    return asyncio.run(scene())


def test_request_and_reply_arrive_as_they_were() -> None:
    speaker = Speaker(SAID)
    assert through(speaker) == SAID
    assert speaker.asked == [(ASKED, TOOLS, DRAWN, 5)]


@pytest.mark.parametrize(
    "error",
    [ContextLengthExceeded("10 fit"), RequestRefused("no role"), ModelUnavailable("dead")],
    ids=lambda error: type(error).__name__,
)
def test_errors_keep_their_kind_and_words(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        through(Speaker(error))


def test_a_token_opens_one_rollout_s_model_only() -> None:
    with pytest.raises(ModelUnavailable, match="403"):
        through(Speaker(SAID), token="another")


def test_a_dead_engine_is_no_score() -> None:
    with pytest.raises(ModelUnavailable, match="no answer from the engine"):
        through(Speaker(SAID), live=False)
