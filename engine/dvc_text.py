"""The text of a ``.dvc`` file: which object it names, under which name, how large.

A text, and the list of a folder's files that it leads to, may come from a stranger's clone: hashes
and names are checked before they become paths.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from engine.errors import DataError

if TYPE_CHECKING:
    from dvc_data.hashfile.hash_info import HashInfo

MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")


class Named(NamedTuple):
    """``size`` in bytes, 0 where the text doesn't say."""

    md5: str
    name: str
    size: int


def read(dvc_text: str) -> Named:
    """Raises DataError for a text that names no MD5 or no plain file."""
    try:
        [out] = yaml.safe_load(dvc_text)["outs"]
        value, name, size = out["md5"], out["path"], out.get("size", 0)
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        value, name, size = None, None, 0
    if not (isinstance(value, str) and MD5.fullmatch(value) and plain(name)):
        raise DataError(
            f"a .dvc text that names no MD5 or no plain file ({dvc_text[:100]!r}); the archive it "
            "stands in is broken or forged, clone it again from a source you trust"
        )
    return Named(value, name, size if isinstance(size, int) else 0)


def name_in(dvc_text: str) -> str:
    """The file or folder name that a ``.dvc`` text gives. Raises DataError for any other text."""
    return read(dvc_text).name


def hash_info(dvc_text: str) -> HashInfo:
    from dvc_data.hashfile.hash_info import HashInfo

    return HashInfo("md5", read(dvc_text).md5)


def plain(name: object) -> bool:
    """Whether ``name`` is one component of a path that stays where it is put."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and name.isprintable()
        and not set(name) & set("/\\")
    )


def files(cache: Any, folder: HashInfo) -> list[HashInfo]:
    """What a folder in the cache is made of. Raises DataError for files outside it."""
    from dvc_data.hashfile.tree import Tree

    entries = []
    for key, _, entry in Tree.load(cache, folder):
        value = entry.value if entry is not None else None
        if not (all(map(plain, key)) and MD5.fullmatch(value or "")):
            raise DataError(
                f"{folder.value}: its list has a file {'/'.join(key)!r} of hash {value!r}, outside "
                "the folder or the cache; it is forged, get it from a source you trust"
            )
        entries.append(entry)
    return entries


def has(cache: Any, wanted: HashInfo) -> bool:
    """Whether the cache has the object, and for a folder every file of it."""
    if not cache.exists(wanted.value):
        return False
    parts = files(cache, wanted) if wanted.isdir else []
    return all(cache.exists(entry.value) for entry in parts)
