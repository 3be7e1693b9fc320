"""Writes one ref by git's own protocol: a lock file beside it, renamed into its place.

libgit2 holds a ref's name against every packed one each time that it writes, so its cost grows
with the archive; this one's doesn't. No reflog is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write(gitdir: Path, ref: str, oid: str, allowed: Callable[[], bool] = lambda: True) -> bool:
    """Point ``ref`` at ``oid``, where ``allowed`` says so once nobody else can move it.

    False where it didn't. Raises FileExistsError while another process has the ref locked, OSError
    when the disk refuses; the ref stays as it is then.
    """
    path = gitdir / ref
    lock = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    moved = False
    try:
        if allowed():
            os.write(descriptor, f"{oid}\n".encode())
            lock.rename(path)
            moved = True
    finally:
        os.close(descriptor)
        if not moved:
            lock.unlink(missing_ok=True)
    return moved
