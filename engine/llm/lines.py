"""Files of JSON lines that only grow, and that a killed process may leave with a torn last line."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Lines:
    """Appends to the file, each line in one write."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._file).st_size
        self._torn = bool(size) and os.pread(self._file, 1, size - 1) != b"\n"

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line. Raises OSError where the disk is full."""
        data = (b"\n" if self._torn else b"") + json.dumps(line).encode() + b"\n"
        self._torn = os.write(self._file, data) < len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def close(self) -> None:
        os.close(self._file)


def read(path: Path, key: str) -> Iterator[dict[str, Any]]:
    """The objects that hold ``key``, torn lines left out; none where there is no file."""
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and key in found:
            yield found
