"""Objects of one transaction: staged in memory, then written as one pack.

A pack instead of loose files, so that an archive of ten thousand offspring stays a few dozen
files; written beside the object store first, so that it appears whole or not at all. Its
``.keep`` file holds ``git gc`` off until a ref reaches it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pygit2

from engine.archive import process
from engine.archive.store import Store, signature

BLOB, COMMIT, TREE = 3, 1, 2
_NAMES = {BLOB: b"blob", COMMIT: b"commit", TREE: b"tree"}
FILE_MODE, TREE_MODE, LINK_MODE = "100644", "40000", "160000"
TreeEntries = Mapping[str, tuple[str, str]]
"""Entry name -> (mode, oid)."""


def oid_of(kind: int, data: bytes) -> str:
    return hashlib.sha1(b"%s %d\0" % (_NAMES[kind], len(data)) + data).hexdigest()


def tree_data(entries: TreeEntries) -> bytes:
    """Git's own form of a tree: sorted by name as bytes, folders as if they ended in '/'."""
    rows = [(name.encode(), mode, oid) for name, (mode, oid) in entries.items()]
    rows.sort(key=lambda row: row[0] + (b"/" if row[1] == TREE_MODE else b""))
    return b"".join(b"%s %s\0%s" % (mode.encode(), n, bytes.fromhex(oid)) for n, mode, oid in rows)


class Staging:
    """Collects objects; nothing reaches the disk before ``flush``."""

    def __init__(self, store: Store, clock: float) -> None:
        self._store = store
        self._signature = signature(store, clock)
        self._objects: dict[str, tuple[int, bytes]] = {}
        self._present: set[str] = set()

    def assume(self, oids: Iterable[str]) -> None:
        """These are reachable in the archive already and needn't be written again."""
        self._present.update(oids)

    def blob(self, data: bytes) -> str:
        return self._put(BLOB, data)

    def tree(self, entries: TreeEntries) -> str:
        return self._put(TREE, tree_data(entries))

    def commit(self, tree: str, parents: Iterable[str], message: str) -> str:
        """A commit by the configured identity, now. A parent named twice counts once."""
        lines = [f"tree {tree}", *(f"parent {oid}" for oid in dict.fromkeys(parents))]
        lines += [f"author {self._signature}", f"committer {self._signature}"]
        return self._put(COMMIT, ("\n".join(lines) + "\n\n" + message).encode("utf-8", "replace"))

    def _put(self, kind: int, data: bytes) -> str:
        oid = oid_of(kind, data)
        if oid not in self._present:
            self._objects[oid] = (kind, data)
        return oid

    def flush(self) -> Kept:
        """Write everything as one pack. Raises OSError or GitError, leaving nothing behind."""
        folder = self._store.incoming()
        try:
            self._pack(folder)
            return _publish(folder, self._store.gitdir / "objects" / "pack")
        except (OSError, pygit2.GitError):
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _pack(self, folder: Path) -> None:
        odb = pygit2.Odb()
        odb.add_backend(_Staged(self._objects), 1)
        scratch = pygit2.Repository()  # no path: it sees the staged objects alone
        scratch.set_odb(odb)
        builder = pygit2.PackBuilder(scratch)
        builder.set_threads(1)
        for oid in self._objects:
            builder.add(pygit2.Oid(hex=oid))
        builder.write(str(folder))


class Kept:
    """A pack that is in place and that git won't touch until ``release`` or ``discard``."""

    def __init__(self, stem: Path) -> None:
        self._stem = stem

    def release(self) -> None:
        """A ref reaches the objects now: git may repack them."""
        self._stem.with_suffix(".keep").unlink(missing_ok=True)

    def discard(self) -> None:
        """No ref will: take the pack away. The index goes first, for readers look for it."""
        for suffix in (".idx", ".pack", ".keep"):
            self._stem.with_suffix(suffix).unlink(missing_ok=True)


def _publish(folder: Path, packs: Path) -> Kept:
    """Move a finished pack in; the index comes last, since it makes the pack visible."""
    (index,) = folder.glob("*.idx")
    stem = packs / index.stem
    kept = Kept(stem)
    try:
        _guard(folder, stem.with_suffix(".keep"))
        for source in (index.with_suffix(".pack"), index):
            with source.open("rb") as handle:
                os.fsync(handle.fileno())
            source.rename(packs / source.name)
    except OSError:
        kept.discard()
        raise
    return kept


def _guard(folder: Path, keep: Path) -> None:
    """Make the ``.keep`` file, which names this process; a link, since new files cost more."""
    owner = folder / "owner"
    if not owner.exists():
        owner.write_text(process.own().text(), encoding="utf-8")
    keep.unlink(missing_ok=True)
    try:
        keep.hardlink_to(owner)
    except OSError:  # no links on this file system
        keep.write_text(process.own().text(), encoding="utf-8")


class _Staged(pygit2.OdbBackend):
    """Shows the staged objects to libgit2's pack writer."""

    def __init__(self, objects: Mapping[str, tuple[int, bytes]]) -> None:
        super().__init__()
        self._objects = objects

    def read_cb(self, oid: pygit2.Oid) -> tuple[int, bytes]:
        return self._objects[str(oid)]

    def read_header_cb(self, oid: pygit2.Oid) -> tuple[int, int]:
        kind, data = self._objects[str(oid)]
        return kind, len(data)

    def exists_cb(self, oid: pygit2.Oid) -> bool:
        return str(oid) in self._objects
