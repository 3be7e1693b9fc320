"""Packs refs that never change: one file for all, instead of one file each.

``git pack-refs`` makes a lock file for every ref that it packs, since any ref might be moved
meanwhile. Branches of the archive are append-only, so one lock is enough.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

HEADER = "# pack-refs with: peeled fully-peeled sorted \n"


def pack(gitdir: Path, fixed: Mapping[str, str]) -> None:
    """Move loose refs that hold their final value into packed-refs. Raises as ``add`` does."""
    loose = {ref: oid for ref, oid in fixed.items() if _holds(gitdir / ref, oid)}
    if loose:
        add(gitdir, loose)
    for ref in loose:
        (gitdir / ref).unlink(missing_ok=True)


def add(gitdir: Path, refs: Mapping[str, str]) -> None:
    """Write refs straight into packed-refs.

    Raises FileExistsError when someone else is packing, OSError when the disk refuses; nothing is
    lost then.
    """
    lock = gitdir / "packed-refs.lock"
    descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(_merged(gitdir / "packed-refs", refs).encode("utf-8", "surrogateescape"))
            handle.flush()
            os.fsync(handle.fileno())
        lock.rename(gitdir / "packed-refs")
    except OSError:
        lock.unlink(missing_ok=True)
        raise


def _holds(path: Path, oid: str) -> bool:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() == oid
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False


def _merged(path: Path, added: Mapping[str, str]) -> str:
    """The file's text with ``added``; a peeled line (``^oid``) stays below its tag."""
    blocks: dict[bytes, str] = {}
    text = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
    last = b""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("^"):
            blocks[last] += f"{line}\n"
        elif line and not line.startswith("#"):
            last = line.partition(" ")[2].encode("utf-8", "surrogateescape")
            blocks[last] = f"{line}\n"
    blocks |= {ref.encode(): f"{oid} {ref}\n" for ref, oid in added.items()}
    return HEADER + "".join(blocks[ref] for ref in sorted(blocks))
