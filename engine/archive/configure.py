"""Local settings that make plain git a browser of the archive, for ``coevo init``."""

from __future__ import annotations

from engine.archive import refs
from engine.archive.store import Store, local_config, translated

_LINE = "--format='%C(auto)%h%d %s %C(dim)%N'"


def settings(run: str) -> dict[str, str]:
    """The settings by key. Aliases show one kind of history each."""
    heads = refs.branches(run)
    rounds = "--first-parent --grep='^Coevo-Kind: round'"  # the first round's parent is its pair
    return {
        "alias.rounds": f"log {rounds} {_LINE} {refs.evolution(run)}",
        "alias.lineage": f"log --graph {_LINE} --glob={heads}harness/*",
        "alias.weights": f"log --graph {_LINE} --glob={heads}checkpoint/*",
        "notes.displayRef": f"{refs.NOTES}*",  # a pattern: git says nothing while there are none
    }


def configure(store: Store, run: str) -> None:
    """Write them into the repository's own config, nowhere else. Raises ArchiveError."""
    with translated(f"writing {store.gitdir / 'config'}"):
        config = local_config(store)
        for key, text in settings(run).items():
            config[key] = text
