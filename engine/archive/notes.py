"""Derived notes: beside each harness its best outcome, for ``git log`` to show.

Rebuilt from pair commits at any time and never read back. Notes of other runs are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.archive import refs, trailers
from engine.archive.entries import Pair
from engine.archive.objects import FILE_MODE, TREE_MODE, Staging
from engine.archive.store import Store, translated


def best(pairs: Iterable[Pair]) -> dict[str, Pair]:
    """Each harness's best validated pair; the earlier one where scores are equal."""
    found: dict[str, Pair] = {}
    for pair in pairs:
        if pair.score is None:
            continue
        rival = found.get(pair.harness)
        if rival is None or rival.score is None or pair.score > rival.score:
            found[pair.harness] = pair
    return found


def text(pair: Pair) -> str:
    """``score 0.41, TIMR 0.12 (r003-k2-a)``."""
    timr = "" if pair.timr is None else f", TIMR {trailers.number(pair.timr)}"
    return f"score {trailers.number(pair.score or 0.0)}{timr} ({pair.label})\n"


def rebuild(store: Store, pairs: Iterable[Pair], clock: float) -> int:
    """Write ``refs/notes/coevo`` anew; how many harnesses it speaks of."""
    staging = Staging(store, clock)
    wanted = {pair.harness: text(pair) for pair in best(pairs).values()}
    old = store.target(refs.NOTES)
    old_tree = str(store.commit(old).tree_id) if old else None
    entries = existing(store, old_tree) if old_tree else {}
    entries |= {oid: staging.blob(line.encode()) for oid, line in wanted.items()}
    if not entries:
        return 0
    tree = fanned(staging, entries)
    if tree != old_tree:
        commit = staging.commit(tree, [], "Best outcome of each harness (derived)\n")
        with translated("writing the notes"):
            kept = staging.flush()
            store.repo.references.create(refs.NOTES, commit, force=True)
            kept.release()
    return len(wanted)


def existing(store: Store, tree: str) -> dict[str, str]:
    """Notes as they are, whatever their fan-out: annotated object -> blob."""
    return {path.replace("/", ""): oid for path, oid in store.paths(tree).items()}


def fanned(staging: Staging, entries: dict[str, str]) -> str:
    """Two hex digits a folder, as git spreads many notes."""
    folders: dict[str, dict[str, tuple[str, str]]] = {}
    for oid, blob in entries.items():
        folders.setdefault(oid[:2], {})[oid[2:]] = (FILE_MODE, blob)
    return staging.tree({name: (TREE_MODE, staging.tree(f)) for name, f in folders.items()})
