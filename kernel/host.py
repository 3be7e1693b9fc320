"""The pool of warm processes that rollouts are forked from, and one rollout's course.

Keys, labels and other tasks stay on this side. A rollout costs one fork; it ends with its whole
pid namespace, and what it did wrong is data in its trajectory.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, NamedTuple

from kernel import sandbox, wire, workspace, zygote
from kernel.contract import (
    ChatModel,
    Completion,
    ExecResult,
    HostWorld,
    InterfaceRules,
    LastingWorld,
    Limits,
    Message,
    ModelUnavailable,
    Sampling,
    ToolSchema,
)
from kernel.episode import Episode
from kernel.sandbox import SandboxUnavailable, WorkerLost
from kernel.trajectory import Trajectory

_DEATH_S = 20.0
_PARTING_S = 2.0
_TRIES = 3
_WORDS = {
    zygote.EXITED: ("harness_error", "the harness process left without a word"),
    zygote.MEMORY: ("harness_error", "over the memory limit"),
    zygote.PROCESSES: ("harness_error", "over the process limit"),
    zygote.CPU: ("timeout", "over the CPU limit"),
}


class Death(NamedTuple):
    """The zygote's word on a rollout's end; '' as the reason when the zygote itself was lost."""

    reason: str
    detail: str = ""


class Line:
    """One zygote and the rollouts forked from it."""

    def __init__(self, mode: str) -> None:
        self.zygote = sandbox.launch(mode)
        self.rollouts: dict[int, asyncio.Future[Death]] = {}
        self.lost = False
        self._numbers = itertools.count()
        asyncio.get_running_loop().add_reader(self.zygote.control, self._listen)

    def _listen(self) -> None:
        try:
            payload = self.zygote.control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            payload = b""
        if not payload:
            self.close()
            return
        message = json.loads(payload)
        future = self.rollouts.pop(message["id"], None)
        if future is not None and not future.done():
            future.set_result(Death(message["reason"], message["detail"]))

    async def start(self, descriptor: int, limits: Limits) -> tuple[int, asyncio.Future[Death]]:
        """Fork a rollout around its socket: its number, and a future for its end."""
        number = next(self._numbers)
        dead: asyncio.Future[Death] = asyncio.get_running_loop().create_future()
        self.rollouts[number] = dead
        names = ("cpu_s", "memory_bytes", "processes")
        watched = {name: getattr(limits, name) for name in names}
        command = json.dumps({"op": "start", "id": number, **watched}).encode()
        await self._send(command, [descriptor])
        if self.lost and not dead.done():
            dead.set_result(Death(""))
        return number, dead

    async def kill(self, number: int) -> None:
        await self._send(json.dumps({"op": "kill", "id": number}).encode(), [])

    async def _send(self, command: bytes, descriptors: list[int]) -> None:
        while not self.lost:
            try:
                socket.send_fds(self.zygote.control, [command], descriptors)
                return
            except BlockingIOError:
                await asyncio.sleep(0.005)
            except OSError:
                self.close()

    def close(self) -> None:
        """End the zygote and with it every rollout of this line."""
        if self.lost:
            return
        self.lost = True
        asyncio.get_running_loop().remove_reader(self.zygote.control)
        sandbox.end(self.zygote)
        for future in self.rollouts.values():
            if not future.done():
                future.set_result(Death(""))
        self.rollouts.clear()


class WorkerPool:
    """Runs rollouts, as many at a time as are asked for.

    ``sandbox`` is one of ``kernel.sandbox.MODES``; ``warm`` the number of zygotes that share the
    load. Entering it raises SandboxUnavailable where the sandbox doesn't work.
    """

    def __init__(self, sandbox: str = "bwrap", warm: int = 1) -> None:
        self._mode = sandbox
        self._warm = warm
        self._lines: list[Line] = []

    async def __aenter__(self) -> WorkerPool:
        try:
            for _ in range(self._warm):
                self._lines.append(Line(self._mode))
        except SandboxUnavailable:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for line in self._lines:
            line.close()
        self._lines.clear()

    def pids(self) -> list[int]:
        """The processes that the pool started; every rollout descends from one of them."""
        return [line.zygote.process.pid for line in self._lines if not line.lost]

    async def run(
        self,
        files: Mapping[str, bytes],
        instruction: str,
        model: ChatModel,
        world: HostWorld,
        limits: Limits,
        sampling: Sampling,
        seed: int,
    ) -> Trajectory:
        """One rollout of a harness. ``world`` is used up by it.

        What the harness does wrong is in the trajectory. Raises ModelUnavailable when the endpoint
        is dead, SandboxUnavailable when a worker can't be set up, WorkerLost when the rollout was
        ended from outside (rerun it with a fresh world), and whatever a broken model or world
        raises.
        """
        start = {"instruction": instruction, "inspect": None}
        try:
            episode = await self._course(
                lambda: Episode(model, world, limits, sampling, seed), files, start
            )
            trajectory = episode.trajectory()
            if isinstance(world, LastingWorld):
                await world.settle()
                trajectory = replace(trajectory, answer=world.answer)
            return trajectory
        finally:
            if isinstance(world, LastingWorld):
                await world.close()

    async def inspect(
        self, files: Mapping[str, bytes], entry_points: Mapping[str, Sequence[str]], limits: Limits
    ) -> list[str]:
        """Import a harness in a worker and hold it against its contract: the problems found."""
        none = replace(limits, turns=0)
        points = {name: list(parameters) for name, parameters in entry_points.items()}
        start = {"instruction": "", "inspect": points}
        episode = await self._course(
            lambda: Episode(_NoModel(), _NoWorld(), none, Sampling(), 0), files, start
        )
        if episode.inspected is not None:
            return episode.inspected
        return [f"harness.py can't be imported: {episode.error or episode.end}"]

    async def _course(
        self, begin: Callable[[], Episode], files: Mapping[str, bytes], start: dict[str, Any]
    ) -> Episode:
        """A rollout to its end; one that was lost before it touched anything is begun again."""
        for attempt in itertools.count(1):
            episode = begin()
            try:
                await self._try(episode, files, start)
                break
            except WorkerLost:
                if episode.touched or not self._lines or attempt == _TRIES:
                    raise
        return episode

    async def _try(
        self, episode: Episode, files: Mapping[str, bytes], start: dict[str, Any]
    ) -> None:
        line = self._line()
        ours, theirs = socket.socketpair()
        with theirs:
            number, dead = await line.start(theirs.fileno(), episode.limits)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        serving = asyncio.create_task(episode.serve(reader, writer))
        alarm = asyncio.create_task(episode.clock.expire())
        ends: tuple[asyncio.Future[Any], ...] = (serving, alarm, dead)
        try:
            writer.write(wire.encode({**start, **_terms(episode, files)}))
            await asyncio.wait((*ends, episode.over), return_when=asyncio.FIRST_COMPLETED)
            if alarm.done():
                episode.finish("timeout", f"over {episode.limits.wall_s:g} s of its own time")
            if dead.done():
                await serving  # what it said before it died
            elif serving.done() and not episode.over.done():
                await asyncio.wait({dead}, timeout=_PARTING_S)
                if not dead.done():
                    episode.finish("harness_error", "the harness closed its connection")
        finally:
            alarm.cancel()
            serving.cancel()
            await line.kill(number)
            await episode.stop()
            await asyncio.wait(ends, timeout=_DEATH_S)
            writer.close()
        self._judge(episode, dead)

    def _judge(self, episode: Episode, dead: asyncio.Future[Death]) -> None:
        """Why a rollout ended, when it didn't say so itself."""
        death = dead.result() if dead.done() else Death("")
        if episode.over.done():
            episode.over.result()
        elif death.reason == zygote.SETUP:
            raise SandboxUnavailable(f"a worker could not be set up: {death.detail}")
        elif death.reason in _WORDS:
            episode.finish(*_WORDS[death.reason])
        else:
            raise WorkerLost("a rollout's process was ended from outside; run the task again")

    def _line(self) -> Line:
        if not self._lines:
            raise RuntimeError("the pool is not open")
        for index, line in enumerate(self._lines):
            if line.lost:
                self._lines[index] = Line(self._mode)
        return min(self._lines, key=lambda line: len(line.rollouts))


def _terms(episode: Episode, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The part of the start frame that is the same for every kind of rollout."""
    code = workspace.code(files)
    return {
        "files": {name: content.decode("latin-1") for name, content in code.items()},
        "tools": list(episode.world.rules.tools),
        "public": episode.world.public,
        "limits": asdict(episode.limits),
        "seed": episode.seed,
    }


class _NoModel:
    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        raise ModelUnavailable("there is no model in an inspection")


class _NoWorld:
    def __init__(self) -> None:
        self.public: dict[str, Any] = {}
        self.rules = InterfaceRules()
        self.answer = None

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        return ""

    async def exec(self, command: str) -> ExecResult:
        return ExecResult("", "there is no shell", 127)
