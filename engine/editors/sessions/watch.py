"""What a session uses while it runs, seen from outside: its processes, their memory, its disk."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PAGE = resource.getpagesize()
_FRESH_S = 0.2
_FILES = 50_000
_DEPTH = 64


@dataclass(frozen=True)
class Limits:
    """The most that one session may use; time in seconds."""

    wall_s: float
    disk_bytes: int
    memory_bytes: int
    processes: int


@dataclass(frozen=True)
class Process:
    """One running process. ``memory`` in bytes, what it shares counted too."""

    pid: int
    parent: int
    memory: int


class Table:
    """The machine's processes; read at most every fifth of a second, whoever asks."""

    def __init__(self) -> None:
        self._at = float("-inf")
        self._children: dict[int, list[Process]] = {}

    def below(self, pid: int) -> list[Process]:
        """All descendants of a process, those of other namespaces and sessions too."""
        if time.monotonic() - self._at > _FRESH_S:
            self._children = {}
            for process in _processes():
                self._children.setdefault(process.parent, []).append(process)
            self._at = time.monotonic()
        found: list[Process] = []
        todo = [pid]
        while todo:
            own = self._children.get(todo.pop(), [])
            found += own
            todo += [process.pid for process in own]
        return found


def excess(limits: Limits, table: Table, pid: int, folder: Path, seconds: float) -> str:
    """Which limit a session is over, in words for its record; '' while it is within all."""
    if seconds > limits.wall_s:
        return f"it hung or took too long: ended after {limits.wall_s:g} s (editors.wall_s)"
    if flood := flooded(limits, folder):
        return flood
    running = table.below(pid)
    if len(running) > limits.processes:
        return f"it started more than {limits.processes} processes (editors.processes)"
    if sum(process.memory for process in running) > limits.memory_bytes:
        return f"it took more than {limits.memory_bytes // 2**20} MiB memory (editors.memory_mb)"
    return ""


def flooded(limits: Limits, folder: Path) -> str:
    """As ``excess``, of what a session wrote alone."""
    if disk(folder, limits.disk_bytes) <= limits.disk_bytes:
        return ""
    return (
        f"it flooded the disk: more than {limits.disk_bytes // 2**20} MiB or {_FILES} files, or "
        f"folders nested deeper than {_DEPTH} (editors.disk_mb)"
    )


def disk(folder: Path, enough: int) -> int:
    """Bytes below ``folder``, on disk or to be read from a sparse file; counting stops once they
    are more than ``enough``, which more files and deeper folders than any session needs count as,
    too: whoever reads them next recurses."""
    used = files = 0
    top = len(folder.parts)
    for parent, _, names in os.walk(folder):
        for name in (".", *names):
            try:
                found = Path(parent, name).lstat()
            except OSError:  # it is gone already
                continue
            used += max(found.st_blocks * 512, found.st_size)
            files += 1
        if files > _FILES or len(Path(parent).parts) - top > _DEPTH:
            return enough + 1
        if used > enough:
            break
    return used


def _processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - ten times a second for thousands
        if not name.isdigit():
            continue
        try:
            text = Path("/proc", name, "stat").read_text("utf-8", "replace")
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        if fields[0] not in "ZX":
            yield Process(int(name), int(fields[1]), int(fields[21]) * _PAGE)
