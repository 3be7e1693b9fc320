"""Who holds a lock: this process, another live one, or one that has died."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Holder:
    """A process. ``started`` tells it from a later one with the same number ('' if unknown)."""

    pid: int
    host: str
    since: str
    started: str

    def text(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    def alive(self) -> bool:
        """Whether it still runs. One on another host counts as alive: nobody here can tell."""
        return self.host != socket.gethostname() or (
            running(self.pid) and started(self.pid) == self.started
        )


def parse(text: str) -> Holder | None:
    """A Holder written by ``text``; None for anything else."""
    try:
        found = json.loads(text)
        return Holder(int(found["pid"]), *(str(found[k]) for k in ("host", "since", "started")))
    except (ValueError, KeyError, TypeError):
        return None


def own() -> Holder:
    pid = os.getpid()
    return Holder(pid, socket.gethostname(), time.strftime("%Y-%m-%d %H:%M:%S"), started(pid))


def started(pid: int) -> str:
    """When a process started, in the kernel's clock ticks; '' where /proc is missing."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def running(pid: int) -> bool:
    """Whether a process of this host exists and isn't a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _stat(pid)[:1] not in (["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name: state first."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
