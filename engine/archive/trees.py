"""Workspaces as git trees: which paths may enter, how they nest, what makes two the same code."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from engine.archive.objects import (
    FILE_MODE,
    TREE,
    TREE_MODE,
    Staging,
    TreeEntries,
    oid_of,
    tree_data,
)
from engine.archive.store import Store
from engine.errors import ArchiveError

NOTES = ("evolve_notes.md", "evolution_report.md")
"""Prose beside the code: not part of its identity, and not mounted in task rollouts."""

# What git itself refuses (``.git`` under any file system's spelling) or would obey (attributes).
_GIT_NAME = re.compile(r"\.git|\.gitmodules|\.gitattributes|gi[a-z0-9]*~\d+", re.IGNORECASE)
_LONGEST = 255


def check_paths(files: Mapping[str, bytes], where: str) -> None:
    """Raises ArchiveError naming the first path that git can't hold on every file system."""
    if not files:
        raise ArchiveError(f"{where} has no files")
    for path in files:
        for part in path.split("/"):
            if problem := _problem(part):
                raise ArchiveError(f"{where}: path {path!r} {problem}; rename it")
        folders = path.split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            if (folder := "/".join(folders[:depth])) in files:
                raise ArchiveError(f"{where}: {folder!r} is both a file and a folder; rename one")


@lru_cache(maxsize=4096)
def _problem(part: str) -> str:
    """Why one component of a path is refused, '' when it is fine."""
    if part in ("", ".", ".."):
        return "has an empty, '.' or '..' component"
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in part) or "\\" in part:
        return "has a control character, an invisible one or a backslash"
    if _GIT_NAME.fullmatch(part.rstrip(". ").partition(":")[0].rstrip(". ")):
        return "has a name that git keeps for itself"
    if len(part.encode()) > _LONGEST:
        return f"has a component of more than {_LONGEST} bytes"
    return ""


def write_files(
    staging: Staging, files: Mapping[str, bytes], extra: TreeEntries | None = None
) -> str:
    """Stage ``files`` (checked paths) as nested trees beside the ``extra`` root entries."""
    return staging.tree(_entries(staging, _nest(files)) | dict(extra or {}))


def _entries(staging: Staging, folder: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    entries = {}
    for name, content in folder.items():
        if isinstance(content, dict):
            entries[name] = (TREE_MODE, staging.tree(_entries(staging, content)))
        else:
            entries[name] = (FILE_MODE, staging.blob(content))
    return entries


def _nest(files: Mapping[str, bytes]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path, content in files.items():
        *folders, name = path.split("/")
        folder = root
        for part in folders:
            folder = folder.setdefault(part, {})
        folder[name] = content
    return root


class Workspace(NamedTuple):
    """A staged workspace: its tree, and the identity of its code."""

    tree: str
    code: str


def write_workspace(staging: Staging, files: Mapping[str, bytes]) -> Workspace:
    """Stage a workspace of checked paths."""
    entries = _entries(staging, _nest(files))
    return Workspace(staging.tree(entries), _code(entries))


def _code(entries: TreeEntries) -> str:
    return oid_of(TREE, tree_data({n: entry for n, entry in entries.items() if n not in NOTES}))


class _Hasher(Staging):
    """A staging that only names objects."""

    def __init__(self) -> None:
        pass

    def _put(self, kind: int, data: bytes) -> str:
        return oid_of(kind, data)


def code_id(files: Mapping[str, bytes]) -> str:
    """The git tree id of a workspace without its notes and report."""
    return write_workspace(_Hasher(), files).code


def code_id_of(store: Store, tree: str) -> str:
    """The same for a tree in the archive."""
    entries = root_entries(store, tree)
    if not any(name in entries for name in NOTES):
        return tree
    return _code(entries)


def root_entries(store: Store, tree: str) -> dict[str, tuple[str, str]]:
    """The entries of one tree: name -> (mode, oid)."""
    return {
        str(entry.name): (f"{int(entry.filemode):o}", str(entry.id)) for entry in store.tree(tree)
    }


def known_oids(store: Store, tree: str) -> list[str]:
    """Every object below a tree, the tree itself too."""
    found, pending = [tree], [tree]
    while pending:
        for mode, oid in root_entries(store, pending.pop()).values():
            found.append(oid)
            if mode == TREE_MODE:
                pending.append(oid)
    return found


def to_json(value: Mapping[str, Any], where: str) -> bytes:
    """Readable, stable JSON (sorted keys). Raises ArchiveError for what JSON can't say."""
    try:
        text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return (text + "\n").encode()
    except (TypeError, ValueError) as err:
        raise ArchiveError(f"{where} can't be kept as JSON: {err}") from err


def from_json(data: bytes, where: str) -> dict[str, Any]:
    """Raises ArchiveError naming the commit and file when it isn't a JSON object."""
    try:
        value = json.loads(data)
    except ValueError as err:
        raise ArchiveError(f"{where} is not JSON: {err}") from err
    if not isinstance(value, dict):
        raise ArchiveError(f"{where} is not a JSON object")
    return value
