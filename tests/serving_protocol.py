"""What every backend owes the engine, told once: subclass ``ServingProtocol`` and give it a server.

Its checkpoints are speakers (``pico.write_speaker``): each says one sentence to everything, so a
test knows which weights have answered, and can have a model say what it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pico
import pytest

from engine.errors import ModelError
from engine.serving.base import Server
from kernel.contract import (
    ChatModel,
    Completion,
    ContextLengthExceeded,
    Message,
    ModelUnavailable,
    RequestRefused,
    Sampling,
)

TEXT = "the kitchen light is on"
CALL = (
    "<tool_call>\n<function=final_answer>\n<parameter=commands>\n{kitchen.light.turn_on()}\n"
    "</parameter>\n</function>\n</tool_call>"
)
BROKEN = CALL.removesuffix("</tool_call>")
"""Never closed: vLLM's own parser would mend it."""

HELLO: list[Message] = [{"role": "user", "content": "turn on the kitchen light"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "final_answer",
        "parameters": {"type": "object", "properties": {"commands": {"type": "string"}}},
    },
}
GREEDY, DRAWN = Sampling(max_tokens=16), Sampling(1.0, 0.95, 20, 16)
CONTEXT = 512


@pytest.fixture(scope="session")
def speakers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("speakers")
    said = {"text": TEXT, "call": CALL, "broken": BROKEN}
    return {name: pico.write_speaker(folder / name, text) for name, text in said.items()}


class ServingProtocol:
    """``server`` makes one that isn't started, with CONTEXT tokens of context."""

    def server(self, folder: Path) -> Server:
        raise NotImplementedError

    @asynccontextmanager
    async def running(self, folder: Path) -> AsyncIterator[Server]:
        made = self.server(folder)
        await made.start()
        try:
            yield made
        finally:
            await made.stop()

    def test_each_checkpoint_answers_for_itself(
        self, speakers: dict[str, Path], tmp_path: Path
    ) -> None:
        """Text, a call, a call that is never closed; asked at once, swapped in between."""

        async def scene() -> None:
            async with self.running(tmp_path) as server:
                got = await self.all_at_once(server, speakers)
                for done in got["text"]:
                    assert (done.content, done.tool_calls, done.malformed) == (TEXT, (), False)
                for done in got["call"]:
                    [call] = done.tool_calls
                    assert (call.name, done.malformed) == ("final_answer", False)
                    assert call.arguments == '{"commands": "{kitchen.light.turn_on()}"}'
                for done in got["broken"]:
                    assert (done.malformed, done.tool_calls) == (True, ())
                    assert "<function=final_answer>" in done.content
                await self.limits(server.model(speakers["broken"], digest("broken")))
            with pytest.raises(ModelUnavailable):
                await ask(server.model(speakers["text"], digest("text")))

        asyncio.run(scene())

    async def all_at_once(
        self, server: Server, speakers: dict[str, Path]
    ) -> dict[str, list[Completion]]:
        models = {name: server.model(path, digest(name)) for name, path in speakers.items()}
        order = [(name, sampling) for sampling in (GREEDY, DRAWN) for name in models]
        replies = await asyncio.gather(*(ask(models[name], how) for name, how in order))
        assert all(r.prompt_tokens > 0 and r.completion_tokens > 0 for r in replies)
        got: dict[str, list[Completion]] = {name: [] for name in models}
        for (name, _), reply in zip(order, replies, strict=True):
            got[name].append(reply)
        return got

    async def limits(self, model: ChatModel) -> None:
        """What is the harness's fault, and leaves the server sound."""
        with pytest.raises(ContextLengthExceeded):
            await model.complete([{"role": "user", "content": "light " * 700}], [], GREEDY, 0)
        with pytest.raises(RequestRefused):
            await model.complete([{"role": "wizard", "content": "x"}], [], GREEDY, 0)
        assert (await ask(model)).malformed

    def test_it_may_be_stopped_without_a_start_and_twice(self, tmp_path: Path) -> None:
        async def scene() -> None:
            made = self.server(tmp_path)
            await made.stop()
            await made.stop()

        asyncio.run(scene())

    def test_no_checkpoint_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"no checkpoint"):
            self.server(tmp_path).model(tmp_path / "nowhere", digest("text"))

    def test_a_fingerprint_is_one_of_the_settings(self, tmp_path: Path) -> None:
        one, again = self.server(tmp_path), self.server(tmp_path / "elsewhere")
        assert one.fingerprint == again.fingerprint
        assert one.fingerprint.startswith(one.name)
        assert one.parallel >= 1


def digest(name: str) -> str:
    return name.encode().hex().ljust(64, "0")


async def ask(model: ChatModel, sampling: Sampling = GREEDY) -> Completion:
    return await model.complete(HELLO, [TOOL], sampling, seed=3)
