"""What a killed process left in the work tree: half-written files and folders, gone at a start.

The archive and the journal mend themselves; this is about scratch that nothing will ever read.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from engine.archive import process

SCRATCH = ("training", "merging", "seeding", "updating")
"""Folders below ``.coevo`` that belong to a stage at work; logs in them are kept, and trainings
that can go on (``NAME.resume``)."""

_NAMES = {
    ".": r"metrics\.json|plots\.json",
    "round": r"\w+\.json",
    "round/briefs": r"[\w-]+\.json",
    "checkpoints": r"[0-9a-f]{12}",
    ".coevo": r"secret",
    ".coevo/splits/*": r"\w+\.jsonl",
    ".coevo/datasets/*": r"[0-9a-f]{12}\.jsonl",
    ".coevo/rollouts/*": r"[\w-]+\.jsonl",
}
"""What the engine writes by way of ``.NAME.PID``, folder by folder: nothing else that is called
alike (a user's ``.env.2024``) is touched."""

_CACHE_AGE_S = 3600.0


def sweep(root: Path) -> int:
    """Remove the leftovers of dead processes below ``root``; how many there were. To be called
    under the run's lock, before a stage makes scratch of its own."""
    found = [*_scratch(root), *_partial(root), *_cache(root)]
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return len(found)


def _scratch(root: Path) -> Iterator[Path]:
    for name in SCRATCH:
        folder = root / ".coevo" / name
        kept = [path for path in folder.glob("*") if path.suffix in (".log", ".resume")]
        yield from (path for path in folder.glob("*") if path not in kept)
        if folder.is_dir() and not kept:
            yield folder


def _partial(root: Path) -> Iterator[Path]:
    """``.NAME.PID`` files and folders that were to become NAME, of processes that are no more."""
    for folder, names in _NAMES.items():
        own = re.compile(rf"\.(?:{names})\.(\d+)")
        for path in root.glob(f"{folder}/.*"):
            found = own.fullmatch(path.name)
            if found and not process.running(int(found[1])):
                yield path


def _cache(root: Path) -> Iterator[Path]:
    """Half copies in DVC's cache. Another DVC may be at work there, so only old ones."""
    for path in (root / ".dvc" / "cache" / "files" / "md5").glob("??/.*.tmp"):
        if time.time() - path.stat().st_mtime > _CACHE_AGE_S:
            yield path
