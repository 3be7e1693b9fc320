"""Files in DVC's cache and remotes, named by the text of their ``.dvc`` file.

The archive keeps that text in its commits, so no ``.dvc`` file has to lie in the work tree: data
goes to the cache by DVC's own data layer and comes back from there, or from the default remote.
Nothing here takes DVC's repository lock, so all of it works inside a running ``dvc repro``.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from engine import dvc_remote
from engine.dvc_text import files, has, hash_info, read
from engine.errors import DataError
from engine.observer import Observer, Silent

if TYPE_CHECKING:
    from dvc.repo import Repo
    from dvc_data.hashfile.hash_info import HashInfo


class DvcStore:
    """The DVC repository at ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def _repo(self) -> Iterator[Repo]:
        from dvc.exceptions import DvcException
        from dvc.repo import Repo
        from dvc_data.hashfile.checkout import CheckoutError, LinkError
        from dvc_objects.errors import ObjectDBError, ObjectFormatError

        try:
            with Repo(str(self._root), config=_shared(self._root)) as repo:
                yield repo
        except (DvcException, ObjectDBError, ObjectFormatError) as error:
            raise DataError(f"{self._root}: DVC: {error}") from None
        except (CheckoutError, LinkError) as error:
            raise DataError(
                f"{self._root}: DVC can't write there ({error.__cause__ or error}); free some disk "
                "or make it writable, then try again"
            ) from None
        except sqlite3.Error as error:
            raise DataError(
                f"{self._root}: DVC's own database refuses ({error}); free some disk or make it "
                "writable, then try again"
            ) from None

    def add(self, path: Path) -> str:
        """Put a file or folder into the cache; the text of its ``.dvc`` file.

        Raises DataError where ``path`` is missing or the disk is full.
        """
        from dvc_data.hashfile.build import build
        from dvc_data.hashfile.transfer import transfer

        if not path.exists():
            raise DataError(f"{path}: missing, so DVC can't keep it")
        try:
            with self._repo() as repo:
                cache = repo.cache.local
                staging, meta, built = build(cache, str(path), repo.fs, "md5")
                _drop_broken(cache, built.hash_info)
                result = transfer(staging, cache, {built.hash_info}, shallow=False)
        except OSError as error:
            raise DataError(f"{path}: DVC could not keep it ({error}); free some disk") from None
        if result.failed:  # it says so and no more: nothing may be archived that nothing holds
            raise DataError(
                f"{path}: DVC could not keep {len(result.failed)} files of it in its cache; free "
                "some disk or make it writable, then run again"
            )
        entry: dict[str, Any] = {"md5": built.hash_info.value, "size": meta.size}
        if meta.nfiles is not None:
            entry["nfiles"] = meta.nfiles
        entry |= {"hash": "md5", "path": path.name}
        text: str = yaml.safe_dump({"outs": [entry]}, sort_keys=False)
        return text

    def materialise(self, dvc_text: str, dest: Path) -> Path:
        """What ``dvc_text`` names, at ``dest``: from the cache, else pulled from the default
        remote. Raises DataError where neither has it."""
        from dvc_data.hashfile import load
        from dvc_data.hashfile.checkout import checkout

        wanted = hash_info(dvc_text)
        with self._repo() as repo:
            cache = repo.cache.local
            broken = _drop_broken(cache, wanted)
            if not has(cache, wanted):
                self._pull(repo, dvc_text, dest, broken)
            dest.parent.mkdir(parents=True, exist_ok=True)
            partial = dest.with_name(f".{dest.name}.{os.getpid()}")
            checkout(str(partial), repo.fs, load(cache, wanted), cache, force=True)
            _replace(partial, dest)
        return dest

    @property
    def cache_folder(self) -> Path:
        """Where objects lie: ``ab/cdef…`` for the MD5 ``abcdef…``."""
        with self._repo() as repo:
            return Path(repo.cache.local.path)

    @property
    def has_remote(self) -> bool:
        """Whether a default remote is configured."""
        with self._repo() as repo:
            return dvc_remote.has_remote(repo)

    def push(
        self, dvc_texts: Iterable[str], observer: Observer | None = None, remote: str | None = None
    ) -> int:
        """Push exactly what the texts name to a remote; how many objects went.

        Raises DataError where there is no remote or it fails.
        """
        wanted = {hash_info(text) for text in dvc_texts}
        with self._repo() as repo:
            target = dvc_remote.remote(repo, "push", remote)
            return dvc_remote.send(repo.cache.local, target, wanted, observer or Silent())

    def fetch(self, dvc_texts: Iterable[str], observer: Observer | None = None) -> int:
        """Bring exactly what the texts name from the default remote into the cache; how many
        objects came. Raises DataError: no remote, it fails or lacks something, no room here."""
        texts = set(dvc_texts)
        with self._repo() as repo:
            cache = repo.cache.local
            missing = {text for text in texts if not has(cache, hash_info(text))}
            if not missing:
                return 0
            dvc_remote.require_cache_room(cache, sum(read(text).size for text in missing))
            source = dvc_remote.remote(repo, "pull")
            wanted = {hash_info(text) for text in missing}
            came = dvc_remote.bring(cache, source, wanted, observer or Silent())
            lacking = sorted(read(x).name for x in missing if not has(cache, hash_info(x)))
        if lacking:
            raise DataError(
                f"{', '.join(lacking[:5])}{' …' if lacking[5:] else ''}: not on the DVC remote; "
                "whoever has the run must `coevo push` it"
            )
        return came

    def _pull(self, repo: Repo, dvc_text: str, dest: Path, broken: Sequence[str]) -> None:
        wanted, cache = hash_info(dvc_text), repo.cache.local
        lacking = "not in DVC's cache"
        if broken:
            lacking += f" any more ({', '.join(broken)} was truncated or changed, and removed)"
        try:
            source = dvc_remote.remote(repo, "pull")
        except DataError as error:
            raise DataError(f"{dest.name}: {lacking}, and {error}") from None
        dvc_remote.require_cache_room(cache, read(dvc_text).size)
        dvc_remote.bring(cache, source, {wanted}, Silent())
        if not has(cache, wanted):
            raise DataError(
                f"{dest.name} ({wanted.value}): {lacking}, and not on the remote; whoever has the "
                "run must `coevo push` it"
            )


def _shared(root: Path) -> dict[str, Any]:
    """In a git worktree the main one's cache and local configuration, else nothing: one object is
    stored once, whichever worktree made it, and what a person configured holds in all of them."""
    from dvc.config import Config

    pointer = root / ".git"
    if not pointer.is_file():
        return {}
    gitdir = Path(pointer.read_text("utf-8").removeprefix("gitdir:").strip())
    common = gitdir / "commondir"
    if not common.is_file():
        return {}
    main = (gitdir / common.read_text("utf-8").strip()).resolve().parent / ".dvc"
    if not main.is_dir():
        return {}
    local = dict(Config(str(main), validate=False).load_one("local"))
    cache = dict(Config(str(main), validate=False)["cache"])
    local["cache"] = {"dir": str(main / "cache")} | cache
    return local


def _drop_broken(cache: Any, wanted: HashInfo) -> list[str]:
    """Remove objects of ``wanted`` whose bytes aren't what their name says (a truncated disk, a
    stray write through a hard link); their paths. DVC itself trusts what it wrote once."""
    broken: list[str] = []

    def check(value: str) -> bool:
        path = Path(cache.oid_to_path(value))
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "md5").hexdigest()
        if found == value.removesuffix(".dir"):
            return True
        path.unlink()
        broken.append(str(path))
        return False

    if check(str(wanted.value)) and wanted.isdir:
        for entry in files(cache, wanted):
            check(str(entry.value))
    return broken


def _replace(partial: Path, dest: Path) -> None:
    """Move ``partial`` to ``dest``, in place of what is there."""
    import shutil

    if dest.is_dir() and not dest.is_symlink():
        shutil.rmtree(dest)
    partial.replace(dest)
