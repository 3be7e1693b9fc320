"""Bring a published pair here: its weights into a run's own store, or a whole agent into a folder.

Files arrive in a hidden folder beside the place they are for, and move there when all of them are
what the manifest says. What an interrupted call brought whole stays for the next one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.agent import write_settings
from engine.archive.entries import Pair
from engine.context import Context
from engine.disk import require_room
from engine.errors import ArchiveError, ConfigError, HubError
from engine.hub import revision
from engine.hub.client import Hub
from engine.hub.revision import CARD, HARNESS, MANIFEST, OWN_CARD, WORLD, Manifest
from engine.params import Params


@dataclass(frozen=True)
class Fetched:
    """A pair that was brought from the Hub, and where it lies."""

    pair: str
    label: str
    revision: str
    weights: str
    folder: str


def fetch_agent(hub: Hub, wanted: str | None, folder: Path) -> Fetched:
    """An agent in an empty ``folder``, as `coevo use` makes one: ``checkpoint/``, ``harness/``,
    ``run.sh``. ``wanted`` is a tag or revision, None for the newest pair. No archive is needed.

    What the Hub says decides the domain, the sampling and the limits; who serves and confines it is
    this machine's affair. Raises HubError, DataError (no room), ConfigError (not empty).
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: not empty; name a new or empty folder")
    partial = folder.absolute().with_name(f".{folder.absolute().name}.partial")
    oid, manifest = _fetch(hub, wanted, partial / "checkpoint")
    params = Params.model_validate(_harmless(manifest.measured, f"{hub.repo}@{oid[:12]}"))
    for name in (HARNESS.rstrip("/"), WORLD, MANIFEST, CARD):
        shutil.rmtree(partial / name, ignore_errors=True)
        (partial / "checkpoint" / name).replace(partial / name)
    (partial / "checkpoint" / OWN_CARD).replace(partial / "checkpoint" / CARD)
    write_settings(partial, manifest.pair, manifest.weights, params)
    if folder.exists():
        folder.rmdir()
    partial.replace(folder)
    return Fetched(manifest.pair, manifest.label, oid, manifest.weights, str(folder))


def fetch_weights(context: Context, hub: Hub, pair: Pair) -> Fetched:
    """The weights of an archived pair, into ``checkpoints/`` and DVC's cache, so that it can be
    replayed. Raises HubError where the Hub lacks it or its files aren't the archived ones."""
    weights = context.archive.checkpoint(pair.checkpoint)
    name = revision.tag(context.params.run, pair)
    partial = context.root / ".coevo" / "hub" / name
    oid, manifest = _fetch(hub, name, partial)
    if (manifest.pair, manifest.weights) != (pair.oid, weights.weights):
        raise HubError(
            f"{hub.repo}@{name}: holds {manifest.pair[:12]} with other weights than "
            f"pair {pair.label} of this archive; don't use it"
        )
    shutil.rmtree(partial / HARNESS)
    for name in (WORLD, MANIFEST):
        (partial / name).unlink()
    (partial / OWN_CARD).replace(partial / CARD)
    stored = context.checkpoints.add(partial)
    return Fetched(pair.oid, pair.label, oid, stored.digest, str(stored.path))


def published_here(context: Context, hub: Hub, wanted: str | None) -> Pair:
    """The archived pair that a revision of the Hub holds. Raises ArchiveError where the archive
    hasn't it."""
    oid = hub.resolve(wanted or "main")
    where = f"{hub.repo}@{wanted or oid[:12]}"
    manifest = revision.read(hub.read(MANIFEST, oid), where)
    try:
        return context.archive.pair(manifest.pair)
    except ArchiveError:
        raise ArchiveError(
            f"{where}: its pair {manifest.pair[:12]} of run {manifest.run!r} is not in this "
            "archive; `coevo pull GIT_REMOTE` first, or name a folder for it: --to DIR"
        ) from None


def _fetch(hub: Hub, wanted: str | None, partial: Path) -> tuple[str, Manifest]:
    """All of a revision in ``partial``, checked. The room it needs is asked for first."""
    oid = hub.resolve(wanted or "main")
    where = f"{hub.repo}@{wanted or oid[:12]}"
    manifest = revision.read(hub.read(MANIFEST, oid), where)
    here = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
    require_room(partial, sum(file.size for file in hub.files(oid)) - here, where)
    hub.fetch(oid, partial)
    revision.check(partial, manifest, where)
    shutil.rmtree(partial / ".cache", ignore_errors=True)
    (partial / ".gitattributes").unlink(missing_ok=True)  # the Hub's own, no part of the checkpoint
    return oid, manifest


def _harmless(measured: Mapping[str, object], where: str) -> Mapping[str, object]:
    """Raises HubError where the domain would be loaded from a module that a stranger names."""
    if ":" in str(measured.get("domain", ":")):
        raise HubError(
            f"{where}: its domain {measured.get('domain')!r} is code of its own: clone the run's "
            "repository and `coevo use` the pair there"
        )
    return {key: value for key, value in measured.items() if key in revision.MEASURED}
