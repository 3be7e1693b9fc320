"""One session's life: its agent started in the sandbox, watched, and ended with all it started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.editors.sessions import places
from engine.editors.sessions.order import Order, early
from engine.editors.sessions.room import Room, bwrap, interpreter, unlock
from engine.editors.sessions.watch import Limits, Table, excess, flooded
from engine.errors import SandboxError

_POLL_S = 0.25
_END_S = 20.0
_LOG_BYTES = 2 * 2**20
LOG = "log.txt"


@dataclass(frozen=True)
class Launch:
    """How an agent is started inside. ``label`` names it in the archive, ``stdin`` is a file."""

    label: str
    command: tuple[str, ...]
    stdin: str = "/dev/null"
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Path, ...] = ()
    programs: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a session ended. ``excess`` names the limit that ended it, ``status`` is the agent's own
    exit status (None where it was ended), ``left`` are processes it had not ended, ``said`` the
    last of its output, ``early`` what it did before it stated its diagnosis."""

    status: int | None
    excess: str
    left: tuple[str, ...]
    seconds: float
    said: str
    early: str = ""


async def run(
    room: Room, launch: Launch, limits: Limits, table: Table, socket: Path | None
) -> Ended:
    """Run the agent until it ends or is over a limit; when this returns, no process of it is left.

    Its output goes to ``log.txt`` in the room's folder. Raises SandboxError where the sandbox
    doesn't start.
    """
    loop = asyncio.get_running_loop()
    began, order = loop.time(), Order(room.work, room.candidate)
    over = ""
    with _Pipes() as pipes:
        process = await _start(room, launch, socket, pipes)
        log = asyncio.ensure_future(_keep(process, room.folder / LOG))
        ended = asyncio.ensure_future(process.wait())
        try:
            pipes.init = _opened(await asyncio.to_thread(_all, pipes.info))
            while not over and not (await asyncio.wait({ended}, timeout=_POLL_S))[0]:
                seconds = loop.time() - began
                order.look(seconds)
                over = excess(limits, table, process.pid, room.work, seconds)
        finally:
            await asyncio.shield(_end(process, ended, pipes.init))
            said = await asyncio.shield(log)
        seconds = loop.time() - began
        await asyncio.to_thread(unlock, room.work)
        over = over or flooded(limits, room.work)
        if pipes.init is None and not over:
            raise SandboxError(f"bubblewrap does not work here: {said.strip()[-300:]}")
        order.look(seconds)
        status, left = _report(pipes.report)
    if over:
        status = None
    elif status is None:
        status = process.returncode
    wrong = early(order.edited_s, order.diagnosed_s, seconds)
    return Ended(status, over, left, seconds, said, wrong)


class _Pipes:
    """The descriptors between a session and the engine, closed at the end. ``init`` stands for the
    first process of the session's namespace."""

    def __init__(self) -> None:
        self.info, self.info_in = os.pipe()
        self.report, self.report_in = os.pipe()
        self.init: int | None = None

    def __enter__(self) -> _Pipes:
        return self

    def started(self) -> None:
        """The session has its ends now."""
        os.close(self.info_in)
        os.close(self.report_in)
        self.info_in = self.report_in = -1

    def __exit__(self, *error: object) -> None:
        for each in (self.info, self.info_in, self.report, self.report_in, self.init):
            if each is not None and each >= 0:
                os.close(each)


async def _start(
    room: Room, launch: Launch, socket: Path | None, pipes: _Pipes
) -> asyncio.subprocess.Process:
    """Start bubblewrap. Its options go by a descriptor, so that no process list shows them."""
    options = os.memfd_create("options")
    try:
        words = room.arguments(launch.environment, socket)
        os.write(options, b"".join(word.encode() + b"\0" for word in words))
        os.lseek(options, 0, os.SEEK_SET)
        process = await asyncio.create_subprocess_exec(
            bwrap(),
            *("--args", str(options), "--info-fd", str(pipes.info_in), "--"),
            *_inside(launch, room.scratch_bytes, pipes.report_in, socket),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            pass_fds=(options, pipes.info_in, pipes.report_in),
            start_new_session=True,
        )
    finally:
        os.close(options)
    pipes.started()
    return process


def _inside(launch: Launch, most: int, report: int, socket: Path | None) -> Sequence[str]:
    python = [str(interpreter()), "-s", "-P", "-B"]
    through = [*python, f"{places.LIBRARY}/bridge.py", places.SOCKET, str(places.PORT)]
    return [
        *python,
        f"{places.LIBRARY}/inside.py",
        *(str(report), str(most), places.CANDIDATE, launch.stdin),
        *(through if socket is not None else []),
        *launch.command,
    ]


def _opened(info: bytes) -> int | None:
    """The first process of the session's namespace, held open; None where there is none."""
    try:
        return os.pidfd_open(int(json.loads(info)["child-pid"]))
    except (ValueError, KeyError, ProcessLookupError):
        return None


def _all(descriptor: int) -> bytes:
    data = b""
    while chunk := os.read(descriptor, 65536):
        data += chunk
        if data.rstrip().endswith(b"}"):
            break
    return data


async def _end(
    process: asyncio.subprocess.Process, ended: asyncio.Future[int], init: int | None
) -> None:
    """End bubblewrap and the first process of its namespace, and so every one in it; returns when
    they are gone."""
    with contextlib.suppress(ProcessLookupError):
        if init is not None:
            signal.pidfd_send_signal(init, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await ended
    if init is not None:  # readable once it and all below it are gone
        await asyncio.to_thread(select.select, [init], [], [], _END_S)


async def _keep(process: asyncio.subprocess.Process, path: Path) -> str:
    """Write the first and the last of a session's output; returns its end."""
    assert process.stdout is not None
    first, last, dropped = bytearray(), bytearray(), 0
    while chunk := await process.stdout.read(65536):
        room = _LOG_BYTES - len(first)
        first += chunk[:room]
        last += chunk[room:]
        if len(last) > _LOG_BYTES:
            dropped += len(last) - _LOG_BYTES
            del last[:-_LOG_BYTES]
    note = f"\n... {dropped} bytes left out ...\n".encode() if dropped else b""
    path.write_bytes(bytes(first) + note + bytes(last))
    return (bytes(first[-4000:]) + bytes(last[-4000:])).decode("utf-8", "replace")[-4000:]


def _report(descriptor: int) -> tuple[int | None, tuple[str, ...]]:
    """What ``inside`` wrote: the agent's exit status and what it left running."""
    os.set_blocking(descriptor, False)
    try:
        found = json.loads(os.read(descriptor, 65536))
        return int(found["status"]), tuple(str(each) for each in found["left"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, ()
