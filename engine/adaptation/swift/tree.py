"""Run a launcher so that nothing of it outlives the engine: ``python tree.py COMMAND...``.

As the server's guard, for launchers that put their workers into sessions of their own, as torchrun
does: whatever loses its parent becomes a child of this process, which ends all its children when
standard input closes or the command ends. It stands alone, as a script.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> int:
    """The command's exit status, or 137 where it was ended from outside."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    ended = os.pidfd_open(child.pid)
    while True:
        ready, _, _ = select.select([0, ended], [], [])
        if ended in ready:
            status = child.wait()
            _end_children()
            return status if status >= 0 else 128 - status
        if not os.read(0, 4096):
            _end_children()
            return 128 + signal.SIGKILL


def _end_children() -> None:
    """Kill children until there are none: a killed one's own become ours."""
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    while pids := own.read_text().split():
        for pid in map(int, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in map(int, pids):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
