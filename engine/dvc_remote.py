"""Objects between DVC's cache and a remote: a folder, SSH, S3 or what else DVC speaks."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.disk import require_room
from engine.dvc_text import files, has
from engine.errors import DataError
from engine.observer import Bar, Observer

if TYPE_CHECKING:
    from dvc.repo import Repo
    from dvc_data.hashfile.hash_info import HashInfo
    from fsspec.callbacks import Callback


def has_remote(repo: Repo, name: str | None = None) -> bool:
    return bool(name or repo.config["core"].get("remote"))


def remote(repo: Repo, command: str, name: str | None = None) -> Any:
    """The objects of a remote, the default one unless named. Raises DataError where there is
    none, or its kind isn't installed."""
    from dvc_objects.fs.errors import RemoteMissingDepsError

    if not has_remote(repo, name):
        raise DataError(
            "no DVC remote is configured: `dvc remote add --default NAME URL`, then try again"
        )
    try:
        return repo.cloud.get_remote_odb(name, command)
    except RemoteMissingDepsError as error:
        kind = str(getattr(error, "protocol", "") or "that kind")
        raise DataError(
            f"the DVC remote's libraries are missing: pip install 'coevo[{kind}]' ({error})"
        ) from None


def send(cache: Any, target: Any, wanted: Collection[HashInfo], observer: Observer) -> int:
    """Push objects, those of folders too; how many went. Raises DataError where some did not
    arrive: no folder's list arrives before all of its files."""
    from dvc_data.hashfile.transfer import transfer

    for each in wanted:
        has(cache, each)  # raises where a folder's list leads elsewhere
    parts = {part for each in wanted for part in _parts(cache, each)}
    _room_on(target, cache, parts)
    with _reached(target), _watched(observer, "to the DVC remote", len(parts)) as watch:
        result = transfer(cache, target, set(wanted), shallow=False, callback=watch)
    if result.failed:
        raise DataError(
            f"DVC: {len(result.failed)} of {len(result.failed) + len(result.transferred)} objects "
            f"did not reach {_place(target)}; run the same command again: what arrived stays"
        )
    return len(result.transferred)


def bring(cache: Any, source: Any, wanted: Collection[HashInfo], observer: Observer) -> int:
    """Fetch objects into the cache, verified; how many came. Raises DataError where the remote
    can't be reached; what it lacks is for the caller to find out."""
    from dvc_data.hashfile.transfer import transfer

    came = 0
    with _reached(source):
        lists = {each for each in wanted if not cache.exists(each.value)}
        came += len(transfer(source, cache, lists, verify=True).transferred)
        # A folder's list of files has to be here before its files can be asked for.
        parts = {part for each in wanted for part in _parts(cache, each)} - set(wanted)
        with _watched(observer, "from the DVC remote", len(parts)) as watch:
            result = transfer(source, cache, parts, verify=True, callback=watch)
        came += len(result.transferred)
    return came


def require_cache_room(cache: Any, needed: int) -> None:
    """Raises DataError, with the figures, where the cache's disk can't take ``needed`` bytes."""
    require_room(Path(cache.path), needed, "what the run needs from the DVC remote")


def _parts(cache: Any, wanted: HashInfo) -> list[HashInfo]:
    """An object and, where the cache has a folder's list, its files."""
    inside = wanted.isdir and cache.exists(wanted.value)
    return [wanted, *(files(cache, wanted) if inside else [])]


def _room_on(target: Any, cache: Any, parts: Collection[HashInfo]) -> None:
    """A remote in a folder is on a disk of known size."""
    if target.fs.protocol != "local":
        return
    new = [part for part in parts if not target.exists(part.value)]
    sizes = (Path(cache.oid_to_path(part.value)) for part in new)
    needed = sum(path.stat().st_size for path in sizes if path.exists())
    require_room(Path(target.path), needed, "the push")


def _place(odb: Any) -> str:
    return str(odb.fs.unstrip_protocol(odb.path))


@contextmanager
def _reached(odb: Any) -> Iterator[None]:
    """What the remote's own library raises, as DataError."""
    try:
        yield
    except _failures() as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DataError(
            f"the DVC remote {_place(odb)} can't be reached ({cause}); check address and "
            "credentials, then run the same command again: what arrived stays"
        ) from None


def _failures() -> tuple[type[Exception], ...]:
    """Beside OSError, the base errors of those libraries that are loaded."""
    kinds: list[type[Exception]] = [OSError]
    for module, name in (
        ("botocore.exceptions", "BotoCoreError"),
        ("botocore.exceptions", "ClientError"),
        ("asyncssh", "Error"),
    ):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)


@contextmanager
def _watched(observer: Observer, title: str, total: int) -> Iterator[Callback]:
    """A bar of objects, which only shows when some are to go."""
    from fsspec.callbacks import Callback

    class Watch(Callback):  # type: ignore[misc]
        def __init__(self, bar: Bar) -> None:
            super().__init__()
            self._bar = bar

        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            self._bar.advance(inc)

    if not total:
        yield Callback()
        return
    with observer.bar(f"objects {title}", total) as bar:
        yield Watch(bar)
