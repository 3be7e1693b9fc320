"""A harness workspace on disk: read it whole, write it whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.errors import DataError
from kernel import workspace


def read_workspace(folder: Path) -> Mapping[str, bytes]:
    """All files below ``folder`` by relative path. Raises DataError where there is no harness.py,
    or where a link or a special file stands in it."""
    if not (folder / "harness.py").is_file():
        raise DataError(f"{folder}: no harness.py, so no harness workspace")
    try:
        return workspace.read(folder)
    except ValueError as error:
        raise DataError(f"{folder}: {error}; a harness workspace holds plain files only") from None


def write_workspace(files: Mapping[str, bytes], folder: Path) -> None:
    """Write ``files`` below ``folder``, which must not exist or be empty. Raises DataError,
    before it writes anything, for a name that leads out of it."""
    try:
        workspace.code(files)
    except ValueError as error:
        raise DataError(f"{folder}: a harness with an unsafe file name: {error}") from None
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
