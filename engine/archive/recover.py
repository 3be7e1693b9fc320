"""After a death at any instant: what its process left behind goes, what it archived comes back."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.archive import branches, lock, process, refs
from engine.archive.state import State
from engine.archive.store import Store, translated
from engine.errors import ArchiveError

GRACE_S = 0.5
PATIENCE_S = 10.0


class Recovered(NamedTuple):
    """What a start had to mend; all zero after an orderly end."""

    refs: int
    locks: int
    packs: int
    worktrees: int


def recover(store: Store, state: State) -> Recovered:
    """Mend the run's repository; its lock must be held. Raises ArchiveError for what it can't."""
    with translated("recovering the archive"):
        locks = _clear_locks(store, state.run)
        packs = _settle_packs(store)
        worktrees = _prune_worktrees(store, state.run)
        state.refresh()
        return Recovered(branches.rebuild(store, state), locks, packs, worktrees)


# --- stale lock files of refs -------------------------------------------------------------------


def _clear_locks(store: Store, run: str) -> int:
    """Remove ``*.lock`` files that no live process owns; wait a while for those of live ones."""
    removed = 0
    for path in list(_lock_files(store.gitdir, run)):
        until = time.monotonic() + PATIENCE_S
        while path.exists():
            owner = _owner(store, run, path)
            if not owner and _age(path) > GRACE_S:
                path.unlink(missing_ok=True)
                removed += 1
            elif time.monotonic() > until:
                raise ArchiveError(f"{path} is in use ({owner or 'just made'}): wait for it to end")
            else:
                time.sleep(0.05)
    return removed


def _lock_files(gitdir: Path, run: str) -> Iterator[Path]:
    for prefix in (refs.branches(run), refs.hidden(run)):
        yield from (gitdir / prefix).rglob("*.lock")
    for name in ("packed-refs.lock", f"{refs.NOTES}.lock", f"{refs.publications(run)}.lock"):
        if (gitdir / name).exists():
            yield gitdir / name


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _owner(store: Store, run: str, path: Path) -> str:
    """Which live process may own a lock file, '' when none does.

    Git closes some lock files while it still owns them, so any git at work in this repository
    counts, as does another run's engine.
    """
    for other in (store.gitdir / "coevo").glob("*.lock"):
        if other != lock.path_of(store.gitdir, run) and lock.busy(other):
            return f"the engine of run {other.stem}"
    inside = (store.gitdir, store.gitdir.parent)
    for pid in (
        int(entry.name) for entry in Path("/proc").glob("[0-9]*")
    ):  # none where there is no /proc
        if pid != os.getpid() and (_has_open(pid, path) or _git_within(pid, inside)):
            return f"process {pid}"
    return ""


def _has_open(pid: int, path: Path) -> bool:
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    return any(_link(descriptor) == str(path) for descriptor in descriptors)


def _git_within(pid: int, places: tuple[Path, ...]) -> bool:
    folder = Path(f"/proc/{pid}")
    try:
        if not (folder / "comm").read_text(encoding="utf-8").startswith("git"):
            return False
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    cwd = Path(_link(folder / "cwd"))
    return str(places[0]) in words or any(cwd.is_relative_to(place) for place in places)


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


# --- packs and worktrees ------------------------------------------------------------------------


def _settle_packs(store: Store) -> int:
    """Let git have the packs that dead processes guarded, and drop unfinished ones."""
    settled = 0
    for keep in (store.gitdir / "objects" / "pack").glob("*.keep"):
        holder = process.parse(keep.read_text(encoding="utf-8", errors="replace"))
        if holder is None or holder.alive():
            continue
        if not keep.with_suffix(".idx").exists():
            keep.with_suffix(".pack").unlink(missing_ok=True)
        keep.unlink(missing_ok=True)
        settled += 1
    for folder in (store.gitdir / "coevo" / "incoming").glob("[0-9]*"):
        if not process.running(int(folder.name)):
            settled += any(path.name != "owner" for path in folder.iterdir())
            shutil.rmtree(folder, ignore_errors=True)
    return settled


def _prune_worktrees(store: Store, run: str) -> int:
    """Remove the run's worktrees: whoever made them held the lock that we hold now."""
    place = store.gitdir / "coevo" / "worktrees" / run
    pruned = 0
    for pointer in (store.gitdir / "worktrees").glob("*/gitdir"):
        work = Path(pointer.read_text(encoding="utf-8", errors="replace").strip()).parent
        if work.is_relative_to(place):
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(pointer.parent)
            pruned += 1
    shutil.rmtree(place, ignore_errors=True)
    return pruned
