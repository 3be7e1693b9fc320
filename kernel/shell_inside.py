"""The process inside a shell's sandbox that runs its commands, one at a time.

It gives up every privilege before the first command. It can't be trusted once one has run (they
are the same user), and needn't be: what it says is what the agent sees and leaves.
"""

from __future__ import annotations

import base64
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from kernel import isolation, seccomp, shell_files, wire

_REQUEST_BYTES = 2**30  # the host is trusted
_ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
_DUMPABLE = 4
_PART = 2**16


def main() -> NoReturn:
    """Serve the socket that standard input is until the host closes it."""
    sock = socket.socket(fileno=os.dup(0))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    start = wire.receive(sock, _REQUEST_BYTES)
    try:
        for folder, packed in start["folders"].items():
            shell_files.unpack(folder, base64.b64decode(packed))
            shell_files.give(folder, start["uid"])
        _confine(start["mode"], start["uid"], start["limits"])
    except OSError as error:
        sock.sendall(wire.encode({"error": str(error)}))
        os._exit(1)
    sock.sendall(wire.encode({"error": ""}))
    server = _Server(start["limits"], next(iter(start["folders"])))
    try:
        while True:
            sock.sendall(wire.encode(server.answer(_next(sock, server))))
    except (OSError, wire.FrameError):
        os._exit(0)


def _confine(mode: str, uid: int, limits: dict[str, Any]) -> None:
    calls = seccomp.prepare()
    isolation.be_killed_first()
    if mode == "user":
        isolation.protect_settings()
        isolation.enter_user_namespace()
    isolation.drop_bounding_set()
    isolation.set_limits({**limits, "tmp_bytes": limits["folder_bytes"], "open_files": 1024})
    if mode == "root":
        isolation.drop_uid(uid)
    isolation.drop_capabilities(calls)
    ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)  # its socket and memory are its own


def _next(sock: socket.socket, server: _Server) -> dict[str, Any]:
    """The next request; meanwhile what earlier commands left running may go on writing."""
    while True:
        ready, _, _ = select.select([sock.fileno(), *server.leftover], [], [])
        server.drain(ready)
        if sock.fileno() in ready:
            return wire.receive(sock, _REQUEST_BYTES)


class _Server:
    def __init__(self, limits: dict[str, Any], home: str) -> None:
        self._limits, self._home = limits, home
        self.leftover: list[int] = []
        """Ends of pipes that background processes still hold."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            answered: dict[str, Any] = getattr(self, f"_{request['op']}")(request)
        except OSError as error:
            return {"stdout": "", "stderr": str(error), "return_code": 126, "archive": ""}
        return answered

    def drain(self, ready: list[int]) -> None:
        for descriptor in [each for each in ready if each in self.leftover]:
            if not os.read(descriptor, _PART):
                self.leftover.remove(descriptor)
                os.close(descriptor)

    def _exec(self, request: dict[str, Any]) -> dict[str, Any]:
        command = ["bash", "-c", request["command"]]
        started = subprocess.Popen(
            command,
            cwd=self._home,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert started.stdout is not None and started.stderr is not None
        streams = [_Stream(pipe.fileno(), self._limits["output_bytes"])
                   for pipe in (started.stdout, started.stderr)]  # fmt: skip
        late = self._read(started, streams, time.monotonic() + request["timeout_s"])
        code = 124 if late else started.returncode
        said = [stream.text() for stream in streams]
        if late:
            said[1] += f"\n[killed after {request['timeout_s']:g} s]"
        code = 128 - code if code < 0 else code
        return {"stdout": said[0], "stderr": said[1], "return_code": code}

    def _read(self, started: subprocess.Popen[bytes], streams: list[_Stream], until: float) -> bool:
        """Read to the command's own end, whoever else still holds its pipes; whether it was late.
        A copy of each end is kept for what goes on in the background."""
        watch = os.pidfd_open(started.pid)
        late, done = False, False
        while not done:
            left = until - time.monotonic()
            if left <= 0 and not late:
                late = True
                os.killpg(started.pid, signal.SIGKILL)
            wanted = [s.descriptor for s in streams if s.open] + [watch]
            ready, _, _ = select.select(wanted, [], [], max(left, 0.0) if not late else 1.0)
            for stream in streams:
                if stream.descriptor in ready:
                    stream.read()
            done = watch in ready
        started.wait()
        os.close(watch)
        for stream in streams:
            stream.read_ready()
            if stream.open:
                self.leftover.append(os.dup(stream.descriptor))
        for pipe in (started.stdout, started.stderr):
            assert pipe is not None
            pipe.close()
        return late

    def _put(self, request: dict[str, Any]) -> dict[str, Any]:
        shell_files.unpack(request["folder"], base64.b64decode(request["archive"]))
        return {}

    def _collect(self, request: dict[str, Any]) -> dict[str, Any]:
        _end_all()
        archive = shell_files.pack(request["folder"], self._limits["folder_bytes"])
        return {"archive": base64.b64encode(archive).decode()}

    def _grade(self, request: dict[str, Any]) -> dict[str, Any]:
        from kernel import grading

        score, text = grading.run(request["facts"], request["timeout_s"], _ENVIRONMENT)
        _end_all()
        return {"score": score, "text": text}


class _Stream:
    """One stream of a command, kept to a limit: its head and its tail."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.descriptor, self._limit, self.open = descriptor, limit, True
        self._head, self._tail, self._dropped = bytearray(), bytearray(), 0
        os.set_blocking(descriptor, False)

    def read(self) -> None:
        try:
            part = os.read(self.descriptor, 2**20)
        except BlockingIOError:
            return
        self.open = bool(part)
        room = self._limit // 2 - len(self._head)
        self._head += part[:room]
        self._tail += part[max(room, 0) :]
        over = len(self._tail) - self._limit // 2
        if over > self._limit // 4:  # seldom, since it moves the rest
            del self._tail[:over]
            self._dropped += over

    def read_ready(self) -> None:
        """What is there already; a writer that never stops isn't waited for."""
        for _ in range(64):
            ready, _, _ = select.select([self.descriptor] if self.open else [], [], [], 0)
            if not ready:
                return
            self.read()

    def text(self) -> str:
        over = max(len(self._tail) - self._limit // 2, 0)
        dropped = self._dropped + over
        middle = f"\n[cut: {dropped} bytes]\n".encode() if dropped else b""
        return (self._head + middle + self._tail[over:]).decode("utf-8", "replace")


def _end_all() -> None:
    """Every process but this one and the namespace's first."""
    try:
        for _ in range(100):
            os.kill(-1, signal.SIGKILL)
            time.sleep(0.002)
    except ProcessLookupError:
        pass
