"""What a killed process or a full disk can leave of DVC's own files, and what it takes to go on.

DVC lets go of locks whose process is gone, but not where the number has passed to another
process, and it stops at files that broke off while they were written. Both files are derived: a
lock says who is at work, and stages that run again without ``dvc.lock`` find what they had done.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from engine.archive import process

_GUARDS = ("lock", "rwlock.lock")


def obstacles(root: Path) -> dict[Path, str]:
    """Files that would stop the next ``dvc repro`` for no good reason, and what is wrong."""
    found: dict[Path, str] = {}
    rwlock, lock = root / ".dvc" / "tmp" / "rwlock", root / "dvc.lock"
    if problem := _of_rwlock(rwlock):
        found[rwlock] = problem
    if problem := _of_lock(lock):
        found[lock] = problem
    return found


def mend(root: Path) -> dict[Path, str]:
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
    try:
        holders = list(_holders(json.loads(path.read_text("utf-8"))))
    except FileNotFoundError:
        return ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return "broken off while it was written"
    strangers = [pid for pid in holders if process.running(pid) and not _is_dvc(pid)]
    if strangers and not any(process.running(pid) and _is_dvc(pid) for pid in holders):
        return f"names process {strangers[0]}, which is no DVC: the one it meant is dead"
    return ""


def _holders(lock: Any) -> Iterator[int]:
    for holder in lock.get("write", {}).values():
        yield int(holder["pid"])
    for holders in lock.get("read", {}).values():
        yield from (int(holder["pid"]) for holder in holders)


def _is_dvc(pid: int) -> bool:
    try:
        return b"dvc" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True  # nobody can tell: leave it to DVC


def _of_lock(path: Path) -> str:
    try:
        body = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        return ""
    except (UnicodeDecodeError, yaml.YAMLError):
        return "broken off while it was written"
    return "" if isinstance(body, dict) and "stages" in body else "broken off while it was written"
