"""What process trees use: CPU seconds and memory, read from /proc in one pass."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Usage:
    """Sums over one tree. ``cpu_s`` counts reaped children too."""

    cpu_s: float = 0.0
    resident: int = 0
    pids: list[int] = field(default_factory=list)

    def memory_bytes(self, interesting: int) -> int:
        """Memory in use; exact only when it may be over ``interesting`` bytes.

        Forks share pages, which resident sizes count again and again; the exact proportional
        sizes cost more to read.
        """
        if self.resident <= interesting:
            return self.resident
        return sum(_proportional(pid) for pid in self.pids)


def by_root(roots: Sequence[int]) -> dict[int, Usage]:
    """For each root its own and its descendants' use together."""
    rows: dict[int, tuple[int, float, int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of Path objects a second
        if name.isdigit():
            with contextlib.suppress(OSError):
                rows[int(name)] = _row(int(name))
    totals = {root: Usage() for root in roots}
    for pid, (_, cpu_s, resident) in rows.items():
        root = _root(pid, rows, totals)
        if root is not None:
            totals[root].cpu_s += cpu_s
            totals[root].resident += resident
            totals[root].pids.append(pid)
    return totals


def _row(pid: int) -> tuple[int, float, int]:
    """Parent, CPU seconds with reaped children's, resident bytes. Raises OSError."""
    descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        fields = os.read(descriptor, 1024).rpartition(b")")[2].split()
    finally:
        os.close(descriptor)
    cpu = sum(int(value) for value in fields[11:15])
    return int(fields[1]), cpu / _TICKS, int(fields[21]) * _PAGE


def _root(pid: int, rows: dict[int, tuple[int, float, int]], roots: dict[int, Usage]) -> int | None:
    for _ in range(len(rows)):
        if pid in roots:
            return pid
        if pid not in rows:
            return None
        pid = rows[pid][0]
    return None


def _proportional(pid: int) -> int:
    try:
        descriptor = os.open(f"/proc/{pid}/smaps_rollup", os.O_RDONLY)
    except OSError:
        return 0
    with os.fdopen(descriptor) as stream, contextlib.suppress(OSError):
        for line in stream:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
