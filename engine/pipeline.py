"""DVC's own files after a kill or on a full disk, and what it takes to go on.

DVC writes ``.dvc/tmp/rwlock`` (a hundred times a round) and ``dvc.lock`` in place, so a process
that is killed while it does leaves half a file, at which the next DVC stops. Both are derived: a
lock says who is at work, and stages that run again without ``dvc.lock`` find what they had done.

As a script, ``python pipeline.py PID ROOT`` waits for process PID, a DVC, and mends what it left:
``watch`` starts it in a session of its own, where a kill of DVC's process group doesn't reach it.
It stands alone, so that it starts in milliseconds.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

_GUARDS = ("lock", "rwlock.lock")
_HALF = "broken off while it was written"


def watch(root: Path) -> None:
    """Where this process works for a DVC, have what that leaves mended when it is gone."""
    dvc = next((pid for pid in _ancestors(os.getpid()) if _is_dvc(pid)), None)
    if dvc is not None:
        subprocess.Popen(
            [sys.executable, "-I", __file__, str(dvc), str(root)],
            cwd="/",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def obstacles(root: Path) -> Mapping[Path, str]:
    """Files that would stop the next ``dvc repro`` for no good reason, and what is wrong."""
    rwlock, lock = root / ".dvc" / "tmp" / "rwlock", root / "dvc.lock"
    found = {rwlock: _of_rwlock(rwlock), lock: _of_lock(lock)}
    return {path: problem for path, problem in found.items() if problem}


def mend(root: Path) -> Mapping[Path, str]:
    """Remove them; what there was. Nothing is done while a DVC is at work here."""
    with ExitStack() as stack:
        if not all(stack.enter_context(_free(root / ".dvc" / "tmp" / n)) for n in _GUARDS):
            return {}
        found = obstacles(root)
        for path in found:
            path.unlink(missing_ok=True)
        return found


@contextmanager
def _free(path: Path) -> Iterator[bool]:
    """Hold one of DVC's lock files; False where another process does."""
    if not path.exists():
        yield True
        return
    with path.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _of_rwlock(path: Path) -> str:
    """DVC itself passes over holders whose process is gone, but not where the number has gone to
    another one."""
    try:
        holders = list(_holders(json.loads(path.read_text("utf-8"))))
    except FileNotFoundError:
        return ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return _HALF
    alive = [pid for pid in holders if Path(f"/proc/{pid}").exists()]
    if alive and not any(_is_dvc(pid) for pid in alive):
        return f"names process {alive[0]}, which is no DVC: the one that it meant is dead"
    return ""


def _holders(lock: Any) -> Iterator[int]:
    for holder in lock.get("write", {}).values():
        yield int(holder["pid"])
    for holders in lock.get("read", {}).values():
        yield from (int(holder["pid"]) for holder in holders)


def _of_lock(path: Path) -> str:
    try:
        body = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        return ""
    except (UnicodeDecodeError, yaml.YAMLError):
        return _HALF
    return "" if isinstance(body, dict) and "stages" in body else _HALF


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except OSError:
            return
        pid = int(stat.rpartition(")")[2].split()[1])
        yield pid


def _is_dvc(pid: int) -> bool:
    """By its command: ``dvc repro``, ``python …/dvc repro`` or ``python -m dvc repro``."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return any(Path(word).name == "dvc" for word in words[:3])


def _wait_for_end(pid: int) -> None:
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([ended], [], [])


if __name__ == "__main__":
    _wait_for_end(int(sys.argv[1]))
    mend(Path(sys.argv[2]))
