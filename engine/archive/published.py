"""Where the Hub has pairs: notes beside their commits, a JSON line for each place.

A pair's revision on the Hub exists after its commit does, so it can't stand in it. Unlike the
derived notes these are kept: each addition is a commit on the notes' own history, and two clones'
notes are merged line by line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.archive.notes import existing, fanned
from engine.archive.objects import Staging
from engine.archive.store import Store, translated
from engine.errors import ArchiveError

Lines = dict[str, list[str]]


def add(store: Store, ref: str, oid: str, facts: Mapping[str, Any], clock: float) -> None:
    """Put a line beside ``oid``, unless it is there. The run's lock must be held."""
    line, lines, old = json.dumps(facts, sort_keys=True), _lines(store, ref), store.target(ref)
    if line not in lines.get(oid, []):
        lines.setdefault(oid, []).append(line)
        _write(store, ref, lines, [old] if old else [], f"Note where {oid[:12]} is", clock)


def merge(store: Store, ref: str, theirs: str, clock: float) -> None:
    """Take in the lines of ``theirs``. The run's lock must be held."""
    ours, other = store.target(ref), store.target(theirs)
    if other is None or other == ours or (ours and store.repo.descendant_of(ours, other)):
        return
    if ours is None or store.repo.descendant_of(other, ours):
        store.repo.references.create(ref, other, force=True)
        return
    lines = _lines(store, ref)
    for oid, more in _lines(store, theirs).items():
        own = lines.setdefault(oid, [])
        own += [line for line in more if line not in own]
    _write(store, ref, lines, [ours, other], "Merge notes of another clone", clock)


def read(store: Store, ref: str) -> dict[str, list[Mapping[str, Any]]]:
    """Annotated commit -> its places. Raises ArchiveError for a note that no engine wrote."""
    try:
        return {
            oid: [dict(json.loads(x)) for x in rows] for oid, rows in _lines(store, ref).items()
        }
    except ValueError as error:
        raise ArchiveError(f"{ref}: a note that is no JSON ({error}); remove or mend it") from None


def _lines(store: Store, ref: str) -> Lines:
    tip = store.target(ref)
    notes = existing(store, str(store.commit(tip).tree_id)) if tip else {}
    return {oid: store.blob(blob).decode().splitlines() for oid, blob in notes.items()}


def _write(
    store: Store, ref: str, lines: Lines, parents: list[str], subject: str, clock: float
) -> None:
    staging = Staging(store, clock)
    blobs = {
        oid: staging.blob("".join(f"{x}\n" for x in own).encode()) for oid, own in lines.items()
    }
    commit = staging.commit(fanned(staging, blobs), parents, f"{subject}\n")
    with translated(f"writing {ref}"):
        kept = staging.flush()
        store.repo.references.create(ref, commit, force=True)
        kept.release()
