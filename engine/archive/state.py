"""The one truth on this machine: ``refs/coevo/R/state``, moved by compare-and-swap.

Its commit's parents are its predecessor and what was just added, so it reaches everything. Its
tree mirrors the archived names with their commits (as links), a folder a round and a folder a
hundred rounds, so finished rounds are shared subtrees and an addition costs the same at any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pygit2

from engine.archive import loose, refs, trailers
from engine.archive.objects import LINK_MODE, TREE_MODE, Staging
from engine.archive.refs import Name
from engine.archive.store import Store
from engine.archive.trees import root_entries
from engine.errors import ArchiveError

Folder = dict[str, tuple[str, str]]
Path = tuple[str, ...]
TIP = "evolution"


class Moved(Exception):
    """The state ref isn't where it was: another process added something."""


class State:
    """The state at one commit; folders are read when needed. ``oid`` is None before the first."""

    def __init__(self, store: Store, run: str) -> None:
        """Raises ArchiveError when the state ref points at something else."""
        self._store, self.run = store, run
        self.ref = refs.state(run)
        self.oid: str | None = None
        self._folders: dict[Path, Folder] = {(): {}}
        self.refresh()

    def refresh(self) -> bool:
        """Follow the ref; True when it had moved."""
        oid = self._store.target(self.ref)
        if oid == self.oid:
            return False
        root = self._checked(oid) if oid else None
        self.oid = oid
        self._folders = {(): root_entries(self._store, root) if root else {}}
        return True

    def _checked(self, oid: str) -> str:
        mend = f"if it holds nothing of yours: git update-ref -d {self.ref}"
        commit = self._store.repo.get(oid)
        if not isinstance(commit, pygit2.Commit):
            raise ArchiveError(f"{self.ref} points at {oid}, which is no commit here; {mend}")
        if trailers.value(trailers.parse(commit.message), "Kind") != "state":
            raise ArchiveError(f"{self.ref} points at {oid}, which is not an archive state; {mend}")
        return str(commit.tree_id)

    # --- reading ------------------------------------------------------------------------------

    def get(self, name: Name) -> str | None:
        *folder, entry = refs.state_path(name)
        found = self._folder(tuple(folder)).get(entry)
        return found[1] if found else None

    @property
    def tip(self) -> str | None:
        """The newest round's commit."""
        found = self._folders[()].get(TIP)
        return found[1] if found else None

    def rounds(self) -> list[int]:
        """Every round that something was archived in, oldest first."""
        hundreds = (name for name in self._folders[()] if name.endswith("xx"))
        return sorted(int(name[1:]) for hundred in hundreds for name in self._folder((hundred,)))

    def of_round(self, round_: int) -> list[tuple[Name, str]]:
        """What one round archived, in order of kind and slot."""
        entries = self._folder(refs.round_folder(round_))
        found = [(refs.parse_state_entry(round_, name), oid) for name, (_, oid) in entries.items()]
        return sorted(found, key=lambda item: item[0].order)

    def newest_first(self, kinds: Iterable[str]) -> Iterator[tuple[Name, str]]:
        """Names of these kinds (rounds' own, not test results), newest round first."""
        wanted = frozenset(kinds)
        for round_ in reversed(self.rounds()):
            yield from reversed([item for item in self.of_round(round_) if item[0].kind in wanted])

    def numbered(self, kind: str) -> list[tuple[Name, str]]:
        """Tests, evaluations or audits, oldest first."""
        entries = self._folder((kind,))
        return sorted(
            ((Name(kind, int(entry)), oid) for entry, (_, oid) in entries.items()),
            key=lambda item: item[0].round,
        )

    def everything(self) -> dict[Name, str]:
        found = {name: oid for r in self.rounds() for name, oid in self.of_round(r)}
        return found | {
            name: oid for kind in refs.NUMBERED_KINDS for name, oid in self.numbered(kind)
        }

    def _folder(self, path: Path) -> Folder:
        """The entries at a path, {} where nothing is; read from git once."""
        if path not in self._folders:
            found = self._folder(path[:-1]).get(path[-1])
            self._folders[path] = root_entries(self._store, found[1]) if found else {}
        return self._folders[path]

    # --- adding -------------------------------------------------------------------------------

    def plan(
        self, staging: Staging, added: Mapping[Name, str], parents: Iterable[str] | None = None
    ) -> Plan:
        """Stage the next state: this one and ``added`` (parents: this one and what was added)."""
        changed: dict[Path, Folder] = {}
        for name, oid in added.items():
            *folder, entry = refs.state_path(name)
            self._changing(changed, tuple(folder))[entry] = (LINK_MODE, oid)
        if finished := [name for name in added if name.kind == "round"]:
            tip = max(finished, key=lambda name: name.round)
            self._changing(changed, ())[TIP] = (LINK_MODE, added[tip])
        for path in sorted(changed, key=len, reverse=True):
            tree = staging.tree(changed[path])
            if path:
                self._changing(changed, path[:-1])[path[-1]] = (TREE_MODE, tree)
        labels = ", ".join(f"{name.kind} {name.label}" for name in list(added)[:12])
        more = f" and {len(added) - 12} more" if len(added) > 12 else ""
        message = trailers.write(f"Archive {labels}{more}", [("Coevo-Kind", "state")])
        above = [self.oid] if self.oid else []
        below = list(added.values()) if parents is None else list(parents)
        return Plan(staging.commit(tree, [*above, *below], message), changed)

    def _changing(self, changed: dict[Path, Folder], path: Path) -> Folder:
        """The copy of a folder that the plan changes; folders above it will change too."""
        if path not in changed:
            changed[path] = dict(self._folder(path))
            for depth in range(len(path)):
                self._changing(changed, path[:depth])
        return changed[path]

    def swap(self, plan: Plan) -> None:
        """Move the ref from this state to the plan's, or raise Moved (OSError: disk)."""
        try:
            moved = loose.write(self._store.gitdir, self.ref, plan.oid, self._unmoved)
        except FileExistsError as err:
            raise Moved from err
        if not moved:
            raise Moved
        self.oid = plan.oid
        self._folders.update(plan.folders)

    def _unmoved(self) -> bool:
        return self._store.target(self.ref) == self.oid


class Plan:
    """The next state, staged: its commit and the folders that differ."""

    def __init__(self, oid: str, folders: dict[Path, Folder]) -> None:
        self.oid, self.folders = oid, folders
