"""The host's end of an agent's shell and tools: a socket into its sandbox, and the record."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from engine.llm.gateway import listening
from kernel import tools
from kernel.contract import HostWorld
from kernel.trajectory import Event

_LARGEST = 4 * 2**20


class WorldDoor:
    """One world behind a socket, one request at a time. ``events`` are its commands and calls as a
    trajectory has them, each with ``at`` (seconds since the epoch) in place of a turn."""

    def __init__(self, world: HostWorld, most: int) -> None:
        self.events: list[Event] = []
        self._world, self._left = world, most
        self._schemas = tools.parameters(world.rules.tools)
        self._turn = asyncio.Lock()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of the agent's; what can't be read gets no answer."""
        with contextlib.suppress(ValueError, KeyError, TypeError, OSError):
            request = json.loads(await reader.readline())
            async with self._turn:
                answer = await self._answer(request)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["op"] == "tools":
            return {"tools": [tool["function"] for tool in self._world.rules.tools]}
        if self._left <= 0:
            text = "too many commands: the task's world is closed"
            return {"stdout": "", "stderr": text, "return_code": 137, "observation": text}
        self._left -= 1
        if request["op"] == "exec":
            return await self._exec(str(request["command"]))
        return await self._call(str(request["name"]), request["arguments"])

    async def _exec(self, command: str) -> dict[str, Any]:
        done = await self._world.exec(command)
        facts = {
            "stdout": done.stdout,
            "stderr": done.stderr,
            "return_code": done.return_code,
        }
        self.events.append({"kind": "exec", "at": time.time(), "command": command, **facts})
        return facts

    async def _call(self, name: str, arguments: Any) -> dict[str, Any]:
        if name not in self._schemas:
            said = f"error: there is no tool {name!r}, only {', '.join(self._schemas)}"
        else:
            try:
                given = tools.validate(json.dumps(arguments), self._schemas[name])
                said = await self._world.call(name, given)
            except ValueError as error:
                said = f"error: {error}"
        event = {"kind": "call", "at": time.time(), "name": name, "arguments": arguments}
        self.events.append({**event, "observation": said})
        return {"observation": said}


@contextlib.asynccontextmanager
async def opened(world: HostWorld, socket: Path, most: int) -> AsyncIterator[WorldDoor]:
    """A door for the length of the block; ``most`` commands and calls go through it."""
    door = WorldDoor(world, most)
    server = await asyncio.start_unix_server(door.serve, sock=listening(socket), limit=_LARGEST)
    try:
        yield door
    finally:
        server.close()
        socket.unlink(missing_ok=True)
