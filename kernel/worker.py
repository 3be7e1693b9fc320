"""The process that evolved code runs in, once it is confined: imports the harness and runs it.

It talks to the host over one stream socket of its own. Nothing it says is believed without
checking, so a harness that patches this module fools only itself.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import random
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from kernel import inspection, wire
from kernel.contract import (
    ContextLengthExceeded,
    ExecResult,
    Message,
    Reply,
    RequestRefused,
    ToolCall,
    ToolSchema,
)

_ERROR_CHARS = 2000
_HOST_FRAME_BYTES = 2**30  # the host is trusted
_RAISED: dict[str, type[Exception]] = {
    ContextLengthExceeded.code: ContextLengthExceeded,
    RequestRefused.code: RequestRefused,
}


def preload() -> None:
    """Import what nearly every harness uses, once, before any fork."""
    for name in ("ast", "dataclasses", "difflib", "json", "logging", "re", "textwrap", "typing"):
        importlib.import_module(name)
    asyncio.new_event_loop().close()


def main(sock: socket.socket, start: dict[str, Any], folders: tuple[str, str]) -> NoReturn:
    """Run the harness of one start frame in ``folders`` (its files, its tmp); never returns."""
    try:
        os.environ["HOME"] = os.environ["TMPDIR"] = folders[1]
        os.chdir(folders[1])
        sys.path.insert(0, folders[0])
        random.seed(start["seed"])
        # Not asyncio.run: nothing is tidied up here, the process ends with the episode.
        asyncio.new_event_loop().run_until_complete(_episode(sock, start))
    finally:
        os._exit(0)


class Channel:
    """Requests to the host, answered in any order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        writer.transport.set_write_buffer_limits(0)  # so that drain means sent
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while (frame := await wire.read(self._reader, _HOST_FRAME_BYTES)) is not None:
            future = self._waiting.pop(frame["id"], None)
            if future is not None and not future.done():
                future.set_result(frame)
        os._exit(0)  # the host is gone, or has ended the rollout

    async def ask(self, **message: Any) -> dict[str, Any]:
        """One request; raises the error that the host answers with."""
        number = next(self._numbers)
        frame = wire.encode({**message, "id": number})
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._writer.write(frame)
        await self._writer.drain()
        answer: dict[str, Any] = await future
        if "raise" in answer:
            raise _RAISED[answer["raise"]](answer["error"])
        return answer

    async def close(self, **message: Any) -> None:
        self._writer.write(wire.encode(message))
        await self._writer.drain()


class ModelProxy:
    """``model`` as a harness sees it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def chat(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema] | None = None
    ) -> Reply:
        answer = await self._channel.ask(op="chat", messages=list(messages), tools=tools or [])
        return Reply(answer["message"], [ToolCall(**call) for call in answer["tool_calls"]])


class WorldProxy:
    """``world`` as a harness sees it."""

    def __init__(self, channel: Channel, start: dict[str, Any]) -> None:
        self._channel = channel
        self.tools: list[ToolSchema] = start["tools"]
        self.public: dict[str, Any] = start["public"]

    async def exec(self, command: str) -> ExecResult:
        answer = await self._channel.ask(op="exec", command=str(command))
        return ExecResult(answer["stdout"], answer["stderr"], answer["return_code"])

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        answer = await self._channel.ask(op="call", name=str(name), arguments=dict(arguments))
        return str(answer["observation"])


async def _episode(sock: socket.socket, start: dict[str, Any]) -> None:
    sock.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=sock)
    channel = Channel(reader, writer)
    try:
        harness = importlib.import_module("harness")
        if start["inspect"] is not None:
            problems = inspection.problems(harness, start["inspect"])
            await channel.close(op="inspected", problems=problems)
        else:
            await harness.run(start["instruction"], ModelProxy(channel), WorldProxy(channel, start))
            await channel.close(op="end", error="", code="")
    except BaseException as error:  # noqa: BLE001 - whatever evolved code raises is data
        text = "".join(traceback.format_exception(error, limit=-6))[-_ERROR_CHARS:]
        await channel.close(op="end", error=text, code=str(getattr(error, "code", "")))
