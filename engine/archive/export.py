"""Some of the archive's harnesses as a repository of their own, for readers that may see no more.

Only the commits asked for, with their trees, are copied: no ref, note or object of anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pygit2

from engine.archive.store import Store, translated


def export(store: Store, branches: Mapping[str, str], head: str, folder: Path) -> None:
    """A bare repository at ``folder`` with ``branches`` (name -> commit) and a detached ``head``.

    Where a parent isn't among them history ends there, as in a shallow clone. Raises ArchiveError
    where a commit is missing.
    """
    with translated(f"exporting harnesses to {folder}"):
        pygit2.init_repository(str(folder), bare=True)
        wanted = set(branches.values()) | {head}
        packer = pygit2.PackBuilder(store.repo)
        for oid in sorted(wanted):
            packer.add_recur(pygit2.Oid(hex=oid))
        packer.write(str(folder / "objects" / "pack"))
        cut = [oid for oid in sorted(wanted) if not _parents(store, oid) <= wanted]
    if cut:
        (folder / "shallow").write_text("".join(f"{oid}\n" for oid in cut))
    rows = sorted(f"{oid} refs/heads/{name}\n" for name, oid in branches.items())
    rows.sort(key=lambda row: row.split(" ", 1)[1])
    (folder / "packed-refs").write_text("# pack-refs with: sorted\n" + "".join(rows))
    (folder / "HEAD").write_text(f"{head}\n")


def _parents(store: Store, oid: str) -> set[str]:
    return {str(parent) for parent in store.commit(oid).parent_ids}
