"""Extract (paper eq. 4): what an update session left, read by the host after every process of the
session is gone.

The folder was the proposer's to write, so nothing in it is trusted: links are not followed, sizes
are asked before anything is read, and what can't be a harness is a reason, not an error.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.archive import trees
from engine.errors import ArchiveError
from kernel import workspace

MOST_BYTES = 4 * 2**20
_MOST_FILES = 2000
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Left:
    """The workspace as it was left, and why it is no harness whatever the checks say of it.
    ``files`` is None where it can't be read."""

    files: Files | None
    reasons: tuple[str, ...] = ()

    def to_json(self) -> Mapping[str, Any]:
        """For a trajectory's answer; ``from_json`` reads it."""
        files = self.files
        packed = None if files is None else {n: _packed(data) for n, data in files.items()}
        return {"files": packed, "reasons": list(self.reasons)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Left:
        packed = value["files"]
        files = None if packed is None else {n: base64.b64decode(t) for n, t in packed.items()}
        return cls(files, tuple(value["reasons"]))


def extract(app: Path, name: str, given: Collection[str]) -> Left:
    """The folder ``name`` below ``app``; ``given`` are the other entries that belong there."""
    stray = sorted(entry.name for entry in os.scandir(app) if entry.name not in {name, *given})
    reasons: tuple[str, ...] = ()
    if stray:
        shown = ", ".join(map(ascii, stray[:8])) + (" ..." if len(stray) > 8 else "")
        reasons = (f"path: changed outside {name}: {shown}; use /tmp for scratch files",)
    try:
        return Left(_read(app / name), reasons)
    except (ValueError, ArchiveError, OSError) as error:
        return Left(None, (*reasons, f"path: {name}: {error}"))


def _read(folder: Path) -> Files:
    if folder.is_symlink():
        raise ValueError("it was replaced by a link")
    sizes = [entry.stat(follow_symlinks=False).st_size for entry in _walk(folder)]
    if len(sizes) > _MOST_FILES or sum(sizes) > MOST_BYTES:
        raise ValueError(
            f"{len(sizes)} files of {sum(sizes)} bytes; at most {_MOST_FILES} of {MOST_BYTES}"
        )
    files = workspace.read(folder)
    trees.check_paths(files, "the workspace")
    return files


def _walk(folder: Path) -> list[os.DirEntry[str]]:
    """Every file below, links not followed, one more than may be at most."""
    found: list[os.DirEntry[str]] = []
    todo = [folder]
    while todo and len(found) <= _MOST_FILES:
        for entry in os.scandir(todo.pop()):
            if not entry.is_dir(follow_symlinks=False):
                found.append(entry)
            elif entry.name != "__pycache__":
                todo.append(Path(entry.path))
    return found


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode()
