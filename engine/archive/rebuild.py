"""A run's state from its evolution branch alone, as a fresh clone has it."""

from __future__ import annotations

from collections.abc import Iterator

import pygit2
from pygit2.enums import SortMode

from engine.archive import reading, refs
from engine.archive.refs import Name
from engine.archive.store import Store
from engine.errors import ArchiveError


def known_tip(store: Store, run: str) -> str | None:
    """Where ``R/evolution`` is: the local branch, else the one that the remotes agree on.

    Raises ArchiveError when remotes differ and neither leads to the other.
    """
    if local := store.target(refs.evolution(run)):
        return local
    suffix = f"/{run}/evolution"
    tips = {oid for ref, oid in store.refs("refs/remotes/").items() if ref.endswith(suffix)}
    newest = [
        tip
        for tip in tips
        if all(other == tip or store.repo.descendant_of(tip, other) for other in tips)
    ]
    if tips and not newest:
        raise ArchiveError(
            f"remotes disagree about {run}/evolution: choose one with "
            f"git branch {run}/evolution REMOTE/{run}/evolution"
        )
    return newest[0] if newest else None


def names_below(store: Store, tip: str) -> dict[Name, str]:
    """Everything archived that a round reaches, by the names in the commits' own trailers.

    Raises ArchiveError when two commits claim one name, or the tip is no round.
    """
    found: dict[Name, str] = {}
    for commit in _walk(store, tip):
        name = reading.name_in(commit)
        if name is None:
            continue
        if name in found:
            raise ArchiveError(
                f"{name.kind} {name.label} exists twice below {tip}: {found[name]} and "
                f"{commit.id}; two histories were merged by hand"
            )
        found[name] = str(commit.id)
    newest = max(
        (name for name in found if name.kind == "round"), key=lambda n: n.round, default=None
    )
    if newest is None or found[newest] != tip:
        raise ArchiveError(f"{tip} is not a round commit, so there is no state to rebuild from it")
    return found


def _walk(store: Store, tip: str) -> Iterator[pygit2.Commit]:
    try:
        yield from store.repo.walk(tip, SortMode.NONE)
    except (KeyError, ValueError, pygit2.GitError) as err:
        raise ArchiveError(
            f"history below {tip} is incomplete ({err}): fetch it from a clone that has it all"
        ) from err
