"""One engine at a time on a run.

A kernel lock (flock) on ``.git/coevo/R.lock``, which dies with its holder, and the holder's name
in the file. Should a child that outlived a killed holder still keep the lock, it is taken over.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.archive import process
from engine.archive.process import Holder
from engine.errors import ArchiveLocked


def path_of(gitdir: Path, run: str) -> Path:
    return gitdir / "coevo" / f"{run}.lock"


@contextmanager
def held(gitdir: Path, run: str) -> Iterator[None]:
    """Hold the run's lock. Raises ArchiveLocked naming pid, host and since when."""
    path = path_of(gitdir, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _one_asks(path.with_name("asking"), run):
        descriptor = _acquire(path, run)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, process.own().text().encode(), 0)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def _one_asks(path: Path, run: str) -> Iterator[None]:
    """Asking and signing are one step: nobody takes over a lock that is just being taken."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        for _ in range(100):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.05)
        else:
            raise ArchiveLocked(f"run {run}: other engines keep asking for its lock; try again")
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, run: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            holder = read(path)
            if holder is None or holder.alive():
                raise ArchiveLocked(_refusal(path, run, holder)) from None
            path.unlink(missing_ok=True)  # its holder is dead; an orphan keeps the old file
            continue
        if _still_at(path, descriptor):
            return descriptor
        os.close(descriptor)  # released and removed while we opened it: take the new file


def _still_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116
    except FileNotFoundError:
        return False


def read(path: Path) -> Holder | None:
    """Who says to hold a lock file; None when it is gone or empty."""
    try:
        return process.parse(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def busy(path: Path) -> bool:
    """Whether a live process holds this run's lock."""
    holder = read(path)
    return holder is not None and holder.alive()


def _refusal(path: Path, run: str, holder: Holder | None) -> str:
    if holder is None:
        return f"run {run} is held by an engine that is just ending ({path}); try again"
    return (
        f"run {run} is held by process {holder.pid} on {holder.host} since {holder.since} "
        f"({path}); wait for it, or stop it with: kill {holder.pid}"
    )
