"""Extract (paper eq. 4): what an update session left in its workspace, read by the host after every
process of the session is gone.

The workspace comes as a tar archive out of the session's sandbox, where nothing else can be written
below ``/app``. It was the proposer's to fill, so nothing in it is trusted: it is never unpacked on
a disk, and what can't be a harness is a reason, not an error.
"""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from engine.archive import trees
from engine.errors import ArchiveError

MOST_BYTES = 4 * 2**20
MOST_FILES = 2000
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Left:
    """The workspace as it was left; ``files`` is None where it is no harness whatever the checks
    would say of it, and ``reason`` says why."""

    files: Files | None
    reason: str = ""

    def to_json(self) -> Mapping[str, Any]:
        """For a trajectory's answer; ``from_json`` reads it."""
        files = self.files
        packed = None if files is None else {n: _packed(data) for n, data in files.items()}
        return {"files": packed, "reason": self.reason}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Left:
        packed = value["files"]
        files = None if packed is None else {n: base64.b64decode(t) for n, t in packed.items()}
        return cls(files, value["reason"])


def extract(archive: bytes) -> Left:
    """The files of a workspace that was packed as a tar archive."""
    try:
        files = read_archive(archive)
        trees.check_paths(files, "the workspace")
    except (ValueError, ArchiveError, tarfile.TarError) as error:
        return Left(None, f"path: {error}")
    return Left(files)


def read_archive(archive: bytes) -> dict[str, bytes]:
    """Regular files by path, byte code and git folders left out. Raises ValueError for links,
    special files, paths that lead out, and for more than a workspace may hold."""
    files: dict[str, bytes] = {}
    total = 0
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if member.isdir() or {"__pycache__", ".git"} & set(path.parts):
                continue
            if not member.isreg():
                raise ValueError(f"{member.name!r} is a link or special file")
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{member.name!r} leads out of the workspace")
            total += member.size
            if total > MOST_BYTES or len(files) >= MOST_FILES:
                raise ValueError(
                    f"the workspace holds more than {MOST_FILES} files or {MOST_BYTES} bytes"
                )
            content = tar.extractfile(member)
            assert content is not None  # a regular file has content
            files[str(path)] = content.read()
    return files


def pack(files: Files) -> bytes:
    """A workspace as the tar archive that a session starts with."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode()
