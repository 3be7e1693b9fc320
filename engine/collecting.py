"""What DVC's cache holds that no ref needs any more, and the freeing of it.

Needed is every object whose MD5 stands in any small text that a ref reaches (``.dvc`` files, JSON
records, ``dvc.lock``, commit messages), in any worktree's files or in an unfinished round's
records: rather too much than too little. A folder's list brings its files along. ``dvc gc`` asks
for less and would lose an archive's data: the ``.dvc`` texts stand in commits that no branch checks
out.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2

from engine.archive import lock
from engine.dvc_store import DvcStore
from engine.errors import ArchiveError, ConfigError

_MD5 = re.compile(rb"[0-9a-f]{32}")
_WEIGHTS = re.compile(rb"^Coevo-Weights: ([0-9a-f]{12})", re.MULTILINE)
_TEXTS = (".dvc", ".json", ".lock", ".yaml", ".yml")
_LARGEST_TEXT = 4 * 2**20
_SHOWN = 10


@dataclass(frozen=True)
class Garbage:
    """Paths that no ref needs, with their sizes in bytes, and what is kept."""

    paths: Mapping[Path, int]
    kept: int
    kept_bytes: int

    @property
    def bytes(self) -> int:
        return sum(self.paths.values())

    def largest(self) -> Sequence[tuple[Path, int]]:
        return sorted(self.paths.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]

    def figures(self) -> dict[str, Any]:
        paths = [str(path) for path in sorted(self.paths)]
        return {
            "objects": len(paths),
            "bytes": self.bytes,
            "kept": self.kept,
            "kept_bytes": self.kept_bytes,
            "paths": paths,
        }


def collect(root: Path, others: Sequence[Path] = (), alone: bool = False) -> Garbage:
    """What of the cache, and of ``checkpoints/``, neither this repository nor ``others`` need.

    Raises ConfigError for a cache outside the repository whose other users aren't named, and
    ArchiveError for a repository that can't be read whole.
    """
    cache = DvcStore(root).cache_folder
    places = (root, *others)
    for place in places:
        _check(place)
    if not (alone or others or cache.resolve().is_relative_to(_common(root).parent)):
        raise ConfigError(
            f"{cache}: lies outside this repository, so others may use it: name each by --with "
            "DIR, or say --alone"
        )
    needed: set[bytes] = set()
    weights: set[bytes] = set()
    for text in (text for place in places for text in _texts(place)):
        needed.update(_MD5.findall(text))
        weights.update(_WEIGHTS.findall(text))
    return _sorted_out(cache, root / "checkpoints", needed, weights)


def free(garbage: Garbage) -> None:
    """Remove it: lists of folders first, so that no list ever promises a file that is gone."""
    for path in sorted(garbage.paths, key=lambda each: each.suffix != ".dir"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _sorted_out(cache: Path, copies: Path, needed: set[bytes], weights: set[bytes]) -> Garbage:
    objects = {path.parent.name + path.name: path for path in cache.glob("??/*")}
    objects = {name: path for name, path in objects.items() if _MD5.match(name.encode())}
    for name, path in objects.items():
        if name.endswith(".dir") and name[:32].encode() in needed:
            needed.update(_MD5.findall(path.read_bytes()))
    gone, kept, kept_bytes = {}, 0, 0
    for name, path in objects.items():
        size = path.stat().st_size
        if name[:32].encode() in needed:
            kept, kept_bytes = kept + 1, kept_bytes + size
        else:
            gone[path] = size
    for folder in copies.glob("*"):
        if re.fullmatch(r"[0-9a-f]{12}", folder.name) and folder.name.encode() not in weights:
            gone[folder] = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    return Garbage(gone, kept, kept_bytes)


def _check(place: Path) -> None:
    """Raises ArchiveError where a repository isn't whole, or an engine makes what no ref names
    yet."""
    common = _common(place)
    if (common / "shallow").exists():
        raise ArchiveError(f"{place}: a shallow clone knows only part of what refs need")
    for path in (common / "coevo").glob("*.lock"):
        holder = lock.read(path)
        if holder is not None and holder.alive() and holder.pid != os.getpid():
            raise ArchiveError(f"{place}: an engine works on run {path.stem}; run gc when it ended")


def _common(place: Path) -> Path:
    """The git directory that all worktrees share. Raises ArchiveError where there is none."""
    from git import InvalidGitRepositoryError, NoSuchPathError, Repo

    try:
        with Repo(place, search_parent_directories=True) as repo:
            return Path(repo.common_dir).resolve()
    except (InvalidGitRepositoryError, NoSuchPathError):
        raise ArchiveError(f"{place}: no git repository") from None


def _texts(place: Path) -> Iterator[bytes]:
    """All small texts that refs, reflogs, indices and work trees of a repository hold."""
    from git import GitCommandError, Repo

    with Repo(place, search_parent_directories=True) as repo:
        try:
            listed = repo.git.rev_list("--objects", "--all", "--reflog", "--indexed-objects")
            trees = repo.git.worktree("list", "--porcelain")
        except GitCommandError as error:
            raise ArchiveError(
                f"{place}: its history can't be read whole: {' '.join(str(error.stderr).split())}"
            ) from None
    objects = pygit2.Repository(str(_common(place)))
    for line in listed.splitlines():
        oid, _, path = line.partition(" ")
        if len(line) == len(oid) or path.endswith(_TEXTS):
            found = objects[oid]
            if isinstance(found, pygit2.Commit):
                yield found.raw_message
            elif isinstance(found, pygit2.Blob) and found.size <= _LARGEST_TEXT:
                yield found.data
    for line in trees.splitlines():
        if line.startswith("worktree "):
            yield from _work_texts(Path(line.removeprefix("worktree ")))


def _work_texts(folder: Path) -> Iterator[bytes]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and name != "checkpoints"]
        for path in (Path(place) / name for name in names if name.endswith(_TEXTS)):
            if path.is_file() and path.stat().st_size <= _LARGEST_TEXT:
                yield path.read_bytes()
