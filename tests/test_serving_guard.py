"""The guard of a server: nothing that it started is left, whichever of the two ends first."""

from __future__ import annotations

import subprocess
import time

from engine.archive import process
from engine.serving.process import guarded

LEAVES = "sleep 60 & echo $!; exec 1>&-"


def started(command: str) -> tuple[subprocess.Popen[str], int]:
    """A guarded shell, and the process that it started in the background."""
    made = subprocess.Popen(
        guarded(["sh", "-c", command]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert made.stdout is not None
    return made, int(made.stdout.readline())


def gone(pid: int) -> bool:
    until = time.monotonic() + 30
    while process.running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not process.running(pid)


def test_what_a_server_leaves_ends_with_it_and_its_code_is_kept() -> None:
    guard, left = started(f"{LEAVES}; exit 3")
    with guard:
        assert guard.wait(30) == 3
        assert gone(left)


def test_what_a_server_started_ends_with_the_engine() -> None:
    guard, left = started(f"{LEAVES}; sleep 60")
    with guard:
        assert guard.stdin is not None
        guard.stdin.close()
        assert guard.wait(30) < 0
        assert gone(left)
