"""Files in DVC's cache and remotes, named by the text of their ``.dvc`` file.

The archive keeps that text in its commits, so no ``.dvc`` file has to lie in the work tree: data
goes to the cache by DVC's own data layer and comes back from there, or from the default remote.
Nothing here takes DVC's repository lock, so all of it works inside a running ``dvc repro``.

A text, and the list of a folder's files that it leads to, may come from a stranger's clone: hashes
and names are checked before they become paths.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from engine.errors import DataError

if TYPE_CHECKING:
    from dvc.repo import Repo
    from dvc_data.hashfile.hash_info import HashInfo

_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")


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
            with Repo(str(self._root)) as repo:
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

        wanted = _hash_info(dvc_text)
        with self._repo() as repo:
            cache = repo.cache.local
            broken = _drop_broken(cache, wanted)
            if not _has(cache, wanted):
                self._pull(repo, wanted, dest, broken)
            dest.parent.mkdir(parents=True, exist_ok=True)
            partial = dest.with_name(f".{dest.name}.{os.getpid()}")
            checkout(str(partial), repo.fs, load(cache, wanted), cache, force=True)
            _replace(partial, dest)
        return dest

    def push(self, dvc_texts: Iterable[str], remote: str | None = None) -> int:
        """Push exactly what the texts name to a remote; how many objects went.

        Raises DataError where there is no remote or it fails.
        """
        from dvc_data.hashfile.transfer import transfer

        wanted = {_hash_info(text) for text in dvc_texts}
        with self._repo() as repo:
            target = self._remote(repo, "push", remote)
            for each in wanted:
                _has(repo.cache.local, each)  # raises where a folder's list leads elsewhere
            result = transfer(repo.cache.local, target, wanted, shallow=False)
        if result.failed:
            raise DataError(
                f"DVC: {len(result.failed)} objects did not reach the remote; try again"
            )
        return len(result.transferred)

    def _pull(self, repo: Repo, wanted: HashInfo, dest: Path, broken: Sequence[str]) -> None:
        from dvc_data.hashfile.transfer import transfer

        lacking = "not in DVC's cache"
        if broken:
            lacking += f" any more ({', '.join(broken)} was truncated or changed, and removed)"
        try:
            source = self._remote(repo, "pull", None)
        except DataError as error:
            raise DataError(f"{dest.name}: {lacking}, and {error}") from None
        cache = repo.cache.local
        transfer(source, cache, {wanted}, verify=True)
        if wanted.isdir and cache.exists(wanted.value):
            # A folder's list of files has to be here before its files can be asked for.
            transfer(source, cache, set(_files(cache, wanted)), verify=True)
        if not _has(cache, wanted):
            raise DataError(
                f"{dest.name} ({wanted.value}): {lacking}, and not on the remote; whoever has the "
                "run must `coevo push` it"
            )

    def _remote(self, repo: Repo, command: str, name: str | None) -> Any:
        if not (name or repo.config["core"].get("remote")):
            raise DataError(
                "no DVC remote is configured: `dvc remote add --default NAME URL`, then try again"
            )
        return repo.cloud.get_remote_odb(name, command)


def name_in(dvc_text: str) -> str:
    """The file or folder name that a ``.dvc`` text gives. Raises DataError for any other text."""
    return _read(dvc_text)[1]


def _hash_info(dvc_text: str) -> HashInfo:
    from dvc_data.hashfile.hash_info import HashInfo

    return HashInfo("md5", _read(dvc_text)[0])


def _read(dvc_text: str) -> tuple[str, str]:
    """The hash and the name in a ``.dvc`` text."""
    try:
        [out] = yaml.safe_load(dvc_text)["outs"]
        value, name = out["md5"], out["path"]
    except (yaml.YAMLError, KeyError, TypeError, ValueError, RecursionError):
        value, name = None, None
    if not (isinstance(value, str) and _MD5.fullmatch(value) and _plain(name)):
        raise DataError(
            f"a .dvc text that names no MD5 or no plain file ({dvc_text[:100]!r}); the archive it "
            "stands in is broken or forged, clone it again from a source you trust"
        )
    return value, name


def _plain(name: object) -> bool:
    """Whether ``name`` is one component of a path that stays where it is put."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and name.isprintable()
        and not set(name) & set("/\\")
    )


def _files(cache: Any, folder: HashInfo) -> list[HashInfo]:
    """What a folder in the cache is made of. Raises DataError for files outside it."""
    from dvc_data.hashfile.tree import Tree

    entries = []
    for key, _, entry in Tree.load(cache, folder):
        value = entry.value if entry is not None else None
        if not (all(map(_plain, key)) and _MD5.fullmatch(value or "")):
            raise DataError(
                f"{folder.value}: its list has a file {'/'.join(key)!r} of hash {value!r}, outside "
                "the folder or the cache; it is forged, get it from a source you trust"
            )
        entries.append(entry)
    return entries


def _has(cache: Any, wanted: HashInfo) -> bool:
    """Whether the cache has the object, and for a folder every file of it."""
    if not cache.exists(wanted.value):
        return False
    files = _files(cache, wanted) if wanted.isdir else []
    return all(cache.exists(entry.value) for entry in files)


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
        for entry in _files(cache, wanted):
            check(str(entry.value))
    return broken


def _replace(partial: Path, dest: Path) -> None:
    """Move ``partial`` to ``dest``, in place of what is there."""
    import shutil

    if dest.is_dir() and not dest.is_symlink():
        shutil.rmtree(dest)
    partial.replace(dest)
