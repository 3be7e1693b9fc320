"""One server process of the engine's own: started, waited for, and never left behind."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.errors import ModelError
from engine.params import child_environment
from engine.serving.base import Progress

_GUARD = Path(__file__).with_name("guard.py")
_TAIL, _LINE = 2**16, 600
_ERROR = re.compile(r"\b\w+(?:Error|Exception): (?!EngineCore encountered)")


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def guarded(command: Sequence[str]) -> list[str]:
    """``command`` under the guard: it dies when the guard's standard input closes, which the
    caller holds as a pipe, and so with the caller."""
    return [sys.executable, "-I", str(_GUARD), *command]


def cpu_environment() -> dict[str, str]:
    """For a process that computes with torch beside other busy ones: threads that wait for each
    other sleep. Spinning, the default, was three to five times slower on two contended cores."""
    return child_environment(
        HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_WAIT_POLICY="PASSIVE"
    )


class ServerProcess:
    """A command under ``guard.py``, in a session of its own, with its output in ``log``."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self._command, self._env, self._log = list(command), dict(env), log
        self._begins = 0  # in the log, which several starts share
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self, health: str, timeout_s: float, progress: Progress) -> None:
        """Start and wait until ``health`` (a URL) answers 200. Raises ModelError with the log's
        last words when the process ends first, or at the time limit."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._begins = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *guarded(self._command),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,
            )
        began, told = time.monotonic(), 0.0
        while not await asyncio.to_thread(answers, health):
            waited = time.monotonic() - began
            if self._process.returncode is not None:
                code = self._process.returncode
                raise ModelError(f"{self._name} ended with code {code}: {self._last_words()}")
            if waited > timeout_s:
                await self.stop()
                raise ModelError(
                    f"{self._name} gave no answer in {timeout_s:.0f} s: {self._last_words()}"
                )
            if waited >= told:
                progress(f"waiting for {self._name} ({waited:.0f} s)")
                told += 1.0
            await asyncio.sleep(0.2)

    async def ended(self) -> str:
        """Wait for its end; the last it said."""
        if self._process is not None:
            await self._process.wait()
        return self._last_words()

    async def stop(self) -> None:
        """Kill the whole process group and wait for its end."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()

    @property
    def _name(self) -> str:
        return " ".join([Path(self._command[0]).name, *self._command[1:2]])

    def _last_words(self) -> str:
        """The last error that it printed since it was started, else its last line: a server that
        goes down says much on the way, and of an engine's end that there is a cause above."""
        with self._log.open("rb") as log:
            log.seek(max(self._begins, log.seek(0, os.SEEK_END) - _TAIL))
            text = log.read().decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR.search(line)]
        said = (errors or lines or ["it said nothing"])[-1][-_LINE:]
        return f"{said} (log: {self._log})"


def answers(url: str) -> bool:
    """Whether a server answers 200 there, within seconds."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return int(reply.status) == 200
    except (urllib.error.URLError, OSError):
        return False
