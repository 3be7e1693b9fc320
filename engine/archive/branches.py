"""The branches people see, which follow the state, and the upkeep that keeps git fast.

They are derived: losing one costs nothing, for ``rebuild`` writes them from the state.
"""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pygit2

from engine.archive import loose, packed, refs, trailers
from engine.archive.refs import Name
from engine.archive.state import State
from engine.archive.store import Store
from engine.errors import ArchiveError

LOOSE_REFS = 256
SHARE = 8  # a burst of branches waits for so great a part of the file that it is written into
BURST = 64
PATIENCE_S = 5.0
PACKS = 45  # git gc --auto would step in at 50
_log = logging.getLogger(__name__)


class Follower:
    """Points branches at what was just added: at once, one file each, or in bulk.

    Only while the run's lock is held (``bulk``) and more than ``BURST`` came within a second are
    branches put off, to be written together: a file for each, made and packed away again, is what
    slows a file system down. ``flush`` writes what is left, and so does the next start.
    """

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run
        self.bulk = False
        self._pending: dict[str, str] = {}
        self._written = 0
        self._since, self._count = 0.0, 0

    def follow(self, added: Mapping[Name, str], tip: str | None) -> None:
        """Raises OSError or GitError (the disk), ArchiveError for a lock that stays."""
        fresh = {refs.full(self._run, n): oid for n, oid in added.items() if n.kind != "round"}
        if self._busy(len(fresh)) and self.bulk:
            self._pending |= fresh
            if len(self._pending) >= max(LOOSE_REFS, self._written // SHARE):
                self.flush()
        else:
            for ref, oid in fresh.items():
                _patiently(_point, self._store, ref, oid)
        if tip and any(name.kind == "round" for name in added):
            _patiently(_move, self._store, refs.evolution(self._run), tip)

    def flush(self) -> None:
        """Write the branches that were put off."""
        if self._pending:
            write(self._store, self._pending)
            self._written += len(self._pending)
            self._pending = {}

    def _busy(self, more: int) -> bool:
        now = time.monotonic()
        if now - self._since > 1.0:
            self._since, self._count = now, 0
        self._count += more
        if self._count > BURST:
            self._since = now  # a burst lasts until a second without one
        return self._count > BURST


def write(store: Store, branches: Mapping[str, str]) -> None:
    """Write branches: together when they are many, else a file each."""
    if len(branches) > BURST:
        try:
            return packed.add(store.gitdir, branches)
        except FileExistsError:
            _log.info("%s: someone else packs refs, so each gets its file", store.gitdir)
    for ref, oid in branches.items():
        _patiently(_point, store, ref, oid)
    return None


def _patiently(change: Callable[[Store, str, str], None], store: Store, ref: str, oid: str) -> None:
    """Change a ref, waiting for a git that has it locked (``git pack-refs`` locks each a moment).

    Raises ArchiveError when the lock stays: the addition is safe, and the next start writes the
    branch.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return change(store, ref, oid)
        except (OSError, pygit2.GitError) as err:
            if not isinstance(err, FileExistsError) and "lock" not in str(err):
                raise
            if time.monotonic() > until:
                raise ArchiveError(
                    f"{ref}.lock is in the way of a branch (its commit {oid} is safe): if no git "
                    "is at work here, start again, which removes it"
                ) from err
            time.sleep(0.01)


def _move(store: Store, ref: str, oid: str) -> None:
    """The evolution branch has a reflog, since people may look where it was."""
    store.repo.references.create(ref, oid, force=True)


def _point(store: Store, ref: str, oid: str) -> None:
    loose.write(store.gitdir, ref, oid)


class Differing(NamedTuple):
    """What a run's refs lack against its state."""

    missing: dict[str, str]
    tip_behind: bool


def compare(store: Store, state: State) -> Differing:
    """Raises ArchiveError for a ref that someone moved to what the archive doesn't hold."""
    run = state.run
    present = store.refs(refs.branches(run)) | store.refs(refs.hidden(run))
    wanted = {refs.full(run, n): oid for n, oid in state.everything().items() if n.kind != "round"}
    for ref, oid in wanted.items():
        if (there := present.get(ref, oid)) != oid:
            short = refs.short(ref)
            raise ArchiveError(
                f"{short} was moved to {there}, but the archive is append-only and has {oid}: keep "
                f"yours (git branch my-{ref.rsplit('/', 1)[1]} {there}), then "
                f"git update-ref {ref} {oid}"
            )
    missing = {ref: oid for ref, oid in wanted.items() if ref not in present}
    return Differing(missing, _behind(store, present.get(refs.evolution(run)), state))


def _behind(store: Store, branch: str | None, state: State) -> bool:
    """Whether R/evolution must be moved up to the state's tip."""
    if branch == state.tip:
        return False
    if branch is None or (state.tip and store.repo.descendant_of(state.tip, branch)):
        return True
    raise ArchiveError(
        f"{state.run}/evolution is at {branch}, which the state ({state.tip}) doesn't lead to: "
        "two machines went on from the same round, or someone moved it. Keep one: "
        f"git update-ref {refs.evolution(state.run)} {state.tip}"
    )


def rebuild(store: Store, state: State) -> int:
    """Write what ``compare`` finds missing; how many refs that were."""
    missing, tip_behind = compare(store, state)
    write(store, missing)
    if tip_behind and state.tip:
        _patiently(_move, store, refs.evolution(state.run), state.tip)
    return len(missing) + tip_behind


def check(store: Store, run: str) -> None:
    """Raises ArchiveError for refs that block the run's or that aren't the archive's."""
    if store.target(f"refs/heads/{run}"):
        raise ArchiveError(
            f"a branch named exactly {run} exists, so git can't hold {run}/...: rename it "
            f"(git branch -m {run} {run}-old) or set another run in params.yaml"
        )
    for ref in store.refs(refs.branches(run)):
        if ref != refs.evolution(run) and refs.parse(run, ref) is None:
            short = refs.short(ref)
            raise ArchiveError(
                f"branch {short} is not the archive's, and {run}/ belongs to it: "
                f"git branch -m {short} {run}-{short.rsplit('/', 1)[1]}"
            )
    if tip := store.target(refs.evolution(run)):
        found = store.repo.get(tip)
        if found is None:
            store.commit(tip)  # says that it is missing
        message = found.message if isinstance(found, pygit2.Commit) else ""
        if trailers.value(trailers.parse(message), "Kind") != "round":
            raise ArchiveError(
                f"{run}/evolution points at {tip}, which is not a round commit: rename that branch "
                f"(git branch -m {run}/evolution {run}-evolution-old) and start again"
            )


def upkeep(store: Store, state: State) -> None:
    """Pack refs and small packs once enough have gathered; each addition pays a small share.

    Geometric repacking drops nothing, reachable or not. A failure (no git command, no room) costs
    speed only, so it is logged.
    """
    if _count(store.gitdir / "objects" / "pack") > 2 * PACKS:
        arguments = ("-d", "-n", "-q", "--geometric=2", "--no-write-bitmap-index")
        if problem := git(store, "repack", *arguments):
            _log.warning("%s: git repack failed, so it gets slower: %s", store.gitdir, problem)
        store.reopen()
    try:
        _pack_refs(store, state)
    except OSError as err:
        _log.warning("%s: refs can't be packed now, so it gets slower: %s", store.gitdir, err)


def _pack_refs(store: Store, state: State) -> None:
    """Pack this run's branches once a folder of loose ones has grown; the newest are in it."""
    folders = {kind: store.gitdir / refs.branches(state.run) / kind for kind in refs.BRANCH_KINDS}
    folders["rejected"] = store.gitdir / refs.hidden(state.run) / "rejected"
    for kind, folder in folders.items():
        if _count(folder) > LOOSE_REFS:
            names = {refs.parse_label(kind, entry.name) for entry in folder.iterdir()}
            found = {name: state.get(name) for name in names if name}
            packed.pack(
                store.gitdir, {refs.full(state.run, n): oid for n, oid in found.items() if oid}
            )


def _count(folder: Path) -> int:
    return sum(1 for _ in os.scandir(folder)) if folder.is_dir() else 0


def git(store: Store, *arguments: str) -> str:
    """Run git blind to the user's configuration; what it complained of, '' when it went well."""
    command = ["env", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "git"]
    command += ["--git-dir", str(store.gitdir), "-c", "core.hooksPath=/dev/null"]
    try:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    except OSError as err:
        return str(err)
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""
