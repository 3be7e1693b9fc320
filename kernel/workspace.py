"""A harness workspace: a folder of files, as a mapping from path to bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

NOTES = frozenset({"evolve_notes.md", "evolution_report.md"})
"""Files for editors to read. No rollout sees them and no budget counts them."""


def code(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The workspace without notes and report. Raises ValueError for a path that leaves it."""
    for name in files:
        path = PurePosixPath(name)
        unsafe = not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name
        if unsafe or str(path) != name:
            raise ValueError(f"{name!r} is no plain relative path")
    return {name: content for name, content in files.items() if name not in NOTES}


def read(folder: Path) -> dict[str, bytes]:
    """Every file under ``folder`` but byte code. Raises ValueError at a symlink or special file."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder")
    files = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__", ".git"})
        for name in [*folders, *names]:
            path = Path(parent, name)
            if path.is_symlink():
                raise ValueError(f"{path.relative_to(folder)} is a symlink")
        for name in names:
            path = Path(parent, name)
            if not path.is_file():
                raise ValueError(f"{path.relative_to(folder)} is no regular file")
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
    return files
