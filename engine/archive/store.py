"""The repository behind an archive: found, judged fit, and read in bulk by pygit2.

The user's git config is read for the identity alone. Work tree, index and hooks are never touched:
the repository is opened as if it were bare, which also keeps reflogs of derived branches away.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pygit2
from pygit2.enums import ConfigLevel, RepositoryOpenFlag

from engine.errors import ArchiveError

FALLBACK_IDENTITY = ("CoEvo", "coevo@localhost")
CACHE_BYTES = 64 * 2**20


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turns what git and the file system raise into ArchiveError that says what was tried."""
    try:
        yield
    except (OSError, pygit2.GitError) as err:
        full = getattr(err, "errno", None) == errno.ENOSPC or "o space left" in str(err)
        mend = "the disk is full: free some space and run the same command again; " if full else ""
        raise ArchiveError(f"{doing} failed: {mend}{err} (nothing was half-written)") from err


class Store:
    """Reads objects and refs. ``gitdir`` is the common git directory, also from a worktree."""

    def __init__(self, path: Path) -> None:
        """Raises ArchiveError when ``path`` is in no repository that can hold an archive."""
        # Process-wide, so set when first needed: mapped packs and caches would count as memory.
        pygit2.settings.cache_max_size(CACHE_BYTES)
        pygit2.settings.mwindow_mapped_limit = CACHE_BYTES
        self.gitdir = _common_dir(_discover(path))
        self.reopen()
        self._check_fit(path)

    def reopen(self) -> None:
        """Forget open packs, for when others have rewritten them."""
        try:
            self.repo = pygit2.Repository(str(self.gitdir), RepositoryOpenFlag.BARE)
        except (OSError, pygit2.GitError) as err:
            mend = f"; if you trust it: git config --global --add safe.directory {self.gitdir}"
            raise ArchiveError(
                f"{self.gitdir} can't be opened: {err}{mend if 'not owned' in str(err) else ''}"
            ) from err

    def _check_fit(self, path: Path) -> None:
        config = self.repo.config
        if _flag(config, "core.bare"):
            raise ArchiveError(
                f"{self.gitdir} is a bare repository: a run needs params.yaml beside it; "
                f"clone it (git clone {self.gitdir} DIR) and work there"
            )
        if (self.gitdir / "shallow").exists():
            raise ArchiveError(
                f"{path} is a shallow clone, so the archive is incomplete: git fetch --unshallow"
            )
        if any(entry.name.endswith((".promisor", ".partialclone")) for entry in config):
            raise ArchiveError(
                f"{path} is a partial clone, so objects are missing: clone without --filter"
            )

    @cached_property
    def identity(self) -> tuple[str, str]:
        """(name, email) that commits carry: user.name and user.email, else CoEvo's own."""
        config = self.repo.config.snapshot()
        name, email = (
            str(config[key]).strip() if key in config else "" for key in ("user.name", "user.email")
        )
        return (name or FALLBACK_IDENTITY[0], email or FALLBACK_IDENTITY[1])

    def incoming(self) -> Path:
        """This process's folder for packs that aren't in place yet; empty between two of them."""
        folder = self.gitdir / "coevo" / "incoming" / str(os.getpid())
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            (self.gitdir / "objects" / "pack").mkdir(exist_ok=True)
        return folder

    # --- refs ---------------------------------------------------------------------------------

    def target(self, ref: str) -> str | None:
        """The commit a ref points at, None when there is no such ref."""
        found = self.repo.references.get(ref)
        return None if found is None else str(found.resolve().target)

    def refs(self, prefix: str) -> dict[str, str]:
        """All refs below ``prefix`` with their targets, symbolic ones left out."""
        return {
            ref.name: str(ref.target)
            for ref in self.repo.references.iterator()
            if ref.name.startswith(prefix) and isinstance(ref.target, pygit2.Oid)
        }

    # --- objects ------------------------------------------------------------------------------

    def commit(self, oid: str) -> pygit2.Commit:
        """The commit. Raises ArchiveError when it is missing or something else."""
        found = self._object(oid)
        if not isinstance(found, pygit2.Commit):
            raise ArchiveError(f"{oid} is a {found.type_str}, not a commit")
        return found

    def tree(self, oid: str) -> pygit2.Tree:
        """The tree. Raises ArchiveError when it is missing or something else."""
        found = self._object(oid)
        if not isinstance(found, pygit2.Tree):
            raise ArchiveError(f"{oid} is a {found.type_str}, not a tree")
        return found

    def blob(self, oid: str) -> bytes:
        found = self._object(oid)
        if not isinstance(found, pygit2.Blob):
            raise ArchiveError(f"{oid} is a {found.type_str}, not a file")
        return found.data

    def _object(self, oid: str) -> pygit2.Object:
        try:
            return self.repo[oid]
        except (KeyError, ValueError, pygit2.GitError) as err:
            raise ArchiveError(
                f"object {oid} is missing or broken in {self.gitdir}: run git fsck, then fetch it "
                "from a clone that has it"
            ) from err

    def paths(self, tree: str) -> dict[str, str]:
        """Every file below a tree: POSIX path -> blob id."""
        found: dict[str, str] = {}
        pending = [("", tree)]
        while pending:
            prefix, oid = pending.pop()
            for entry in self.tree(oid):
                path = f"{prefix}{entry.name}"
                if isinstance(entry, pygit2.Tree):
                    pending.append((f"{path}/", str(entry.id)))
                elif isinstance(entry, pygit2.Blob):
                    found[path] = str(entry.id)
        return dict(sorted(found.items()))


class TreeFiles(Mapping[str, bytes]):
    """The files of a tree, read when they are looked at."""

    def __init__(self, store: Store, tree: str) -> None:
        self._store, self._tree = store, tree
        self._paths: dict[str, str] | None = None

    def _known(self) -> dict[str, str]:
        if self._paths is None:
            self._paths = self._store.paths(self._tree)
        return self._paths

    def __getitem__(self, path: str) -> bytes:
        return self._store.blob(self._known()[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())


def _discover(path: Path) -> Path:
    try:
        found = pygit2.discover_repository(str(path))
    except (pygit2.GitError, KeyError) as err:
        raise ArchiveError(f"{path} can't be used as a git repository: {err}") from err
    if not found:
        raise ArchiveError(f"{path} is not in a git repository: run coevo init there, or git init")
    return Path(found)


def _common_dir(gitdir: Path) -> Path:
    """A linked worktree's git directory names the one that all share."""
    pointer = gitdir / "commondir"
    if not pointer.exists():
        return gitdir.resolve()
    return (gitdir / pointer.read_text(encoding="utf-8").strip()).resolve()


def _flag(config: pygit2.Config, key: str) -> bool:
    return key in config and config.get_bool(key)


def local_config(store: Store) -> pygit2.Config:
    """The repository's own config file, the one place that ``configure`` writes to."""
    config = pygit2.Config()
    config.add_file(str(store.gitdir / "config"), ConfigLevel.LOCAL)
    return config


def signature(store: Store, clock: float) -> str:
    """``Name <email> seconds zone`` of a commit made at ``clock``."""
    name, email = (text.translate(_FORBIDDEN).strip() for text in store.identity)
    minutes = time.localtime(clock).tm_gmtoff // 60
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{abs(minutes) % 60:02d}"
    return f"{name or 'CoEvo'} <{email}> {int(clock)} {zone}"


_FORBIDDEN = {ord(c): None for c in "<>\n\0"}
