"""A sandboxed shell that lives as long as its world: one folder tree, many commands.

Everything that is written stands in memory-backed folders of limited size, so that nothing of it
ever touches the host's disk: what a folder holds goes in and comes out as a tar archive. A command
may leave processes behind; they die with the shell. There is no network, and the host's files are
absent but for the system's own and what is mounted on purpose.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import select
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kernel import isolation, sandbox, usage, wire
from kernel.contract import ExecResult
from kernel.sandbox import SandboxUnavailable

_TICK_S = 0.5
_GRACE_S = 10.0
_DEATH_S = 5.0
_START_S = 20.0
_BOOT = "import sys; sys.path.insert(0, '/coevo'); from kernel.shell_inside import main; main()"
_ENDED = "the shell has ended"


class Mount(NamedTuple):
    """A folder of the host's that commands may read; its modes must let any user do so."""

    source: Path
    target: str


@dataclass(frozen=True)
class ShellLimits:
    """Seconds and bytes. ``memory_bytes``, ``processes`` and ``cpu_s`` hold for all of the shell's
    processes together; ``folder_bytes`` for each writable folder; ``output_bytes`` for each of a
    command's two streams, which are cut in the middle while they are read."""

    command_s: float = 120.0
    cpu_s: float = 600.0
    memory_bytes: int = 2**30
    processes: int = 128
    folder_bytes: int = 128 * 2**20
    output_bytes: int = 32 * 2**20


class Shell:
    """A shell with the writable folders ``folders`` (the first is where commands start), each
    filled from a tar archive. It starts with the first thing that is asked of it.

    Every method raises SandboxUnavailable where no sandbox works.
    """

    def __init__(
        self,
        folders: Mapping[str, bytes],
        mounts: Sequence[Mount] = (),
        limits: ShellLimits | None = None,
    ) -> None:
        self._folders, self._mounts = dict(folders), tuple(mounts)
        self._limits = limits or ShellLimits()
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._first = -1
        self._turn = asyncio.Lock()  # one command at a time
        self._watch: asyncio.Task[None] | None = None
        self.ended = ""
        """Why it runs no more; '' while it does."""

    async def exec(self, command: str, timeout_s: float | None = None) -> ExecResult:
        """Run a command with bash. Over its time it is killed and returns 124; in a shell that has
        ended everything returns 137 with the reason."""
        limit = min(timeout_s or self._limits.command_s, self._limits.command_s)
        answer = await self._ask(limit + _GRACE_S, op="exec", command=command, timeout_s=limit)
        if answer is None:
            return ExecResult("", f"{_ENDED}: {self.ended}", 137)
        return ExecResult(answer["stdout"], answer["stderr"], answer["return_code"])

    async def put(self, folder: str, archive: bytes) -> None:
        """Unpack a tar archive into a folder while commands may be at work."""
        packed = base64.b64encode(archive).decode()
        await self._ask(_START_S, op="put", folder=folder, archive=packed)

    async def collect(self, folder: str) -> bytes:
        """What a folder holds, as a tar archive, after every process of the shell is gone; empty
        where the shell ended before. Nothing else can be asked afterwards but other folders."""
        answer = await self._ask(_START_S, op="collect", folder=folder)
        return base64.b64decode(answer["archive"]) if answer else b""

    async def grade(self, facts: Mapping[str, Any]) -> tuple[float, str]:
        """As ``graded``, in this shell."""
        request = {"op": "grade", "facts": dict(facts), "timeout_s": self._limits.command_s}
        answer = await self._ask(self._limits.command_s + _GRACE_S, **request)
        if answer is None:
            return 0.0, f"the grading ended: {self.ended}"
        return float(answer["score"]), str(answer["text"])

    async def close(self) -> None:
        """End it with every process in it. It may be called again, and without a start."""
        if self._watch is not None:
            self._watch.cancel()
        self._kill("closed")
        if self._streams is not None:
            self._streams[1].close()

    # --- the conversation ---------------------------------------------------------------------

    async def _ask(self, within_s: float, **request: Any) -> dict[str, Any] | None:
        """The answer to one request; None when the shell has ended, or ends over it."""
        async with self._turn:
            if self.ended:
                return None
            reader, writer = self._streams or await self._start()
            writer.write(wire.encode(request))
            try:
                most = 4 * (self._limits.output_bytes + self._limits.folder_bytes)
                answer = await asyncio.wait_for(wire.read(reader, most), within_s)
            except TimeoutError:
                answer = None
                self._kill("it stopped answering")
            except wire.FrameError as error:
                answer = None
                self._kill(f"it said something that is no answer ({error})")
            if answer is None:
                self._kill("its processes were killed")
            return answer

    async def _start(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ours, theirs = socket.socketpair()
        mode, command = self._command()
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._streams = await asyncio.open_unix_connection(sock=ours)
        packed = {name: base64.b64encode(data).decode() for name, data in self._folders.items()}
        uids = isolation.spare_uids()
        uid = uids[random.SystemRandom().randrange(len(uids))] if mode == "root" else 0
        terms = {"mode": mode, "uid": uid, "folders": packed, "limits": asdict(self._limits)}
        self._streams[1].write(wire.encode(terms))
        try:
            ready = await asyncio.wait_for(wire.read(self._streams[0], 2**20), _START_S)
        except (TimeoutError, wire.FrameError):
            ready = None
        if ready is None or ready.get("error"):
            said = self._complaint() if ready is None else str(ready["error"])
            self._kill("it didn't start")
            raise SandboxUnavailable(f"a shell could not be set up: {said}")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self._first = os.pidfd_open(int(children.read_text().split()[0]))
        self._watch = asyncio.create_task(self._enforce())
        return self._streams

    def _complaint(self) -> str:
        assert self._process is not None and self._process.stderr is not None
        self._process.kill()
        words = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return words[-1] if words else "it ended without a word"

    def _kill(self, why: str) -> None:
        self.ended = self.ended or why
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()  # bubblewrap takes its whole pid namespace along
            process.wait()
            if self._first >= 0:  # which is gone when its first process is
                select.select([self._first], [], [], _DEATH_S)
                os.close(self._first)
            if process.stderr is not None:
                process.stderr.close()

    async def _enforce(self) -> None:
        """rlimits hold for one process; these hold for all processes of the shell together."""
        assert self._process is not None
        while not self.ended:
            await asyncio.sleep(_TICK_S)
            with contextlib.suppress(OSError):
                total = usage.by_root([self._process.pid])[self._process.pid]
                if reason := self._excess(total):
                    self._kill(reason)

    def _excess(self, total: usage.Usage) -> str:
        limits = self._limits
        if total.cpu_s > limits.cpu_s:
            return f"over {limits.cpu_s:g} s of CPU"
        if len(total.pids) > limits.processes + 3:
            return f"over {limits.processes} processes"
        over = total.memory_bytes(limits.memory_bytes) > limits.memory_bytes
        return f"over {limits.memory_bytes >> 20} MB of memory" if over else ""

    # --- the sandbox --------------------------------------------------------------------------

    def _command(self) -> tuple[str, list[str]]:
        """How the engine's user runs here ("root" or "user"), and bubblewrap's command line."""
        mode, options = sandbox.shell_options()
        for folder in (*self._folders, "/tmp", "/logs/agent"):
            size = str(self._limits.folder_bytes)
            options += ["--size", size, "--perms", "0777", "--tmpfs", folder]
        for mount in self._mounts:
            options += ["--ro-bind", str(mount.source), mount.target]
        return mode, [*options, "--remount-ro", "/", *sandbox.interpreter(), "-c", _BOOT]


async def graded(
    app: bytes,
    grader: bytes,
    facts: Mapping[str, Any],
    limits: ShellLimits | None = None,
) -> tuple[float, str]:
    """Score in [0, 1] and the grader's words on a copy of ``/app``, in a fresh sandbox.

    ``grader`` is a tar archive with ``grade.py``, which reads ``/app`` and prints lines, the last
    of them JSON with ``score``; ``facts`` are given to it as ``/grader/facts.json``. Whatever goes
    wrong with the grading of what an agent left scores 0 and says so.
    """
    shell = Shell({"/app": app, "/grader": grader}, limits=limits)
    try:
        return await shell.grade(facts)
    finally:
        await shell.close()
