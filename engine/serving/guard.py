"""Run a server so that it can't outlive the engine: ``python guard.py COMMAND...``.

The engine holds the other end of standard input. When it closes, by intent or because the engine
was killed, the guard kills its whole process group; when the command ends, what that has left in
the group. It stands alone, as a script, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(command: list[str]) -> int:
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)  # it kills its own group, never its caller's
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)
    ended = os.pidfd_open(child.pid)
    while True:
        ready, _, _ = select.select([0, ended], [], [])
        if ended in ready:
            status = child.wait()
            while left := list(_group()):
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            return status if status >= 0 else 128 - status
        if not os.read(0, 4096):
            os.killpg(0, signal.SIGKILL)


def _group() -> Iterator[int]:
    """The live processes of the guard's group, less itself."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group, *_ = path.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(path.parent.name)
        if int(group) == os.getpgid(0) and pid != os.getpid() and state not in "ZX":
            yield pid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
