"""Room on a disk, asked for before something large is brought there."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.errors import DataError


def size_text(count: float) -> str:
    """``18.2 GB``."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if count < 1000 or unit == "PB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def require_room(folder: Path, needed: int, what: str) -> None:
    """Raises DataError, with the figures, where ``needed`` bytes don't fit on ``folder``'s disk."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        raise DataError(
            f"{what} needs {size_text(needed)}, but {place} has {size_text(free)} free: free "
            f"{size_text(needed - free)}, or put it on another disk; nothing was transferred"
        )
