"""The write path: drafts become commits, and all of a transaction appears at once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pygit2

from engine.archive import branches, commits, reading, trees
from engine.archive.commits import Content
from engine.archive.drafts import (
    AuditDraft,
    CheckpointDraft,
    EvaluationDraft,
    HarnessDraft,
    PairDraft,
    RoundDraft,
    TestDraft,
)
from engine.archive.objects import Staging
from engine.archive.refs import Name
from engine.archive.state import Moved, State
from engine.archive.store import Store, translated
from engine.errors import ArchiveError

ATTEMPTS = 100
Newest = Callable[[str], str | None]


class Transaction:
    """Commits that will appear together, each under its name."""

    def __init__(self, store: Store, state: State, clock: float) -> None:
        self._store, self._state = store, state
        self.staging = Staging(store, clock)
        self.added: dict[Name, str] = {}

    def add(self, name: Name, content: Content) -> str:
        """The commit of that name: a new one, or the archived one when its tree is the same.

        Raises ArchiveError when the name already stands for another tree.
        """
        if name in self.added:
            raise ArchiveError(f"{name.kind} {name.label} is given twice")
        if not (old := self._archived(name)):
            commit = self.staging.commit(content.tree, content.parents, content.message)
            self.added[name] = commit
            return commit
        if str(self._store.commit(old).tree_id) != content.tree:
            raise ArchiveError(
                f"{name.kind} {name.label} is archived already as {old[:10]} with other content: "
                "the archive is append-only, use another name"
            )
        return old

    def _archived(self, name: Name) -> str | None:
        """What the name stands for; a slot is the same whether its offspring was rejected."""
        twin = {"harness": "rejected", "rejected": "harness"}.get(name.kind)
        return self._state.get(name) or (
            self._state.get(replace(name, kind=twin)) if twin else None
        )


class Recorder:
    """Adds to the archive. ``clock`` gives the commits' time in seconds since the epoch."""

    def __init__(self, store: Store, state: State, clock: Callable[[], float]) -> None:
        self._store, self._state, self._clock = store, state, clock
        self.follower = branches.Follower(store, state.run)
        self._codes: dict[str, dict[str, str]] = {"harness": {}, "rejected": {}}
        self._codes_at: str | None = None  # the state that the codes were read from

    def run(self, fill: Callable[[Transaction], list[str]]) -> list[str]:
        """Fill a transaction and land it; again from the start when another process was faster.

        Raises ArchiveError, with nothing moved, for bad input, a full disk or a stuck lock.
        """
        for _ in range(ATTEMPTS):
            self._state.refresh()
            transaction = Transaction(self._store, self._state, self._clock())
            oids = fill(transaction)
            try:
                if transaction.added:
                    self._land(transaction)
                return oids
            except Moved:
                time.sleep(random.uniform(0.001, 0.03))
        raise ArchiveError(
            f"{self._state.ref} can't be moved: other processes keep writing, or one that died "
            f"left {self._state.ref}.lock (a new start removes it)"
        )

    def _land(self, transaction: Transaction) -> None:
        state, before, added = self._state, self._state.oid, transaction.added
        with translated("archiving " + ", ".join(f"{n.kind} {n.label}" for n in list(added)[:4])):
            plan = state.plan(transaction.staging, added)
            kept = transaction.staging.flush()
            try:
                state.swap(plan)
            except (Moved, OSError, pygit2.GitError):
                if self._store.target(state.ref) != plan.oid:
                    kept.discard()
                raise
            kept.release()
            if self._codes_at == before:
                self._learn(added)
            self.follower.follow(added, state.tip)
        branches.upkeep(self._store, state)

    # --- the kinds ----------------------------------------------------------------------------

    def harnesses(self, drafts: Sequence[HarnessDraft]) -> list[str]:
        def fill(transaction: Transaction) -> list[str]:
            siblings: dict[str, str] = {}
            return [self._harness(transaction, draft, siblings) for draft in drafts]

        return self.run(fill)

    def _harness(self, tx: Transaction, draft: HarnessDraft, siblings: dict[str, str]) -> str:
        name = commits.name_of(draft)
        if draft.base:
            self.member(draft.base, "harness", f"base of {name.label}")
        for adoption in draft.adopts:
            self.member(adoption.oid, "harness", f"adopted by {name.label}", "rejected")
        tree, code = commits.workspace(self._store, tx.staging, draft)
        if not draft.rejected and draft.duplicate_of is None:
            draft = replace(draft, duplicate_of=siblings.get(code) or self.find_code(code))
        oid = tx.add(name, commits.harness(draft, tree))
        if not draft.rejected:
            siblings.setdefault(code, oid)
        return oid

    def checkpoint(self, draft: CheckpointDraft) -> str:
        def fill(transaction: Transaction) -> list[str]:
            name = commits.name_of(draft)
            for source in draft.sources:
                self.member(source, "checkpoint", f"source of {draft.name}")
            if draft.trained_under:
                self.member(draft.trained_under, "harness", f"training harness of {draft.name}")
            content = commits.checkpoint(transaction.staging, draft, name)
            return [transaction.add(name, content)]

        return self.run(fill)[0]

    def pair(self, draft: PairDraft) -> str:
        def fill(transaction: Transaction) -> list[str]:
            name = commits.name_of(draft)
            self.member(draft.harness, "harness", f"harness of {draft.name}")
            self.member(draft.checkpoint, "checkpoint", f"checkpoint of {draft.name}")
            content = commits.pair(self._store, transaction.staging, draft, name)
            return [transaction.add(name, content)]

        return self.run(fill)[0]

    def round(self, draft: RoundDraft) -> str:
        def fill(transaction: Transaction) -> list[str]:
            name = Name("round", draft.round)
            previous = self._state.tip
            if self._state.get(name) is None:
                self._check_turn(draft.round, previous)
            self.member(draft.incumbent, "pair", f"incumbent of round {draft.round}")
            children = self._children(draft)
            content = commits.round_(self._store, transaction.staging, draft, previous, children)
            return [transaction.add(name, content)]

        return self.run(fill)[0]

    def _check_turn(self, round_: int, previous: str | None) -> None:
        newest = reading.name_in(self._store.commit(previous)) if previous else None
        due = newest.round + 1 if newest else 0
        if round_ != due:
            raise ArchiveError(f"round {round_} can't end now: round {due} is next")

    def _children(self, draft: RoundDraft) -> list[str]:
        """The round's pairs, then all else it archived that no pair of it holds."""
        own = self._state.of_round(draft.round)
        pairs = [*draft.pairs, *(oid for name, oid in own if name.kind == "pair")]
        for oid in draft.pairs:
            self.member(oid, "pair", f"pair of round {draft.round}")
        for oid in draft.others:
            self.member(oid, "harness", f"part of round {draft.round}", "rejected", "checkpoint")
        held = {str(parent) for oid in pairs for parent in self._store.commit(oid).parent_ids}
        rest = [oid for name, oid in own if name.kind not in ("pair", "round")]
        others = [oid for oid in (*draft.others, *rest) if oid not in held]
        return list(dict.fromkeys([*pairs, *others]))

    def test(self, draft: TestDraft) -> str:
        def fill(transaction: Transaction) -> list[str]:
            self.member(draft.pair, "pair", "tested pair")
            number = self._next("test")
            content = commits.test(transaction.staging, draft, number)
            return [transaction.add(Name("test", number), content)]

        return self.run(fill)[0]

    def evaluation(self, draft: EvaluationDraft) -> str:
        def fill(transaction: Transaction) -> list[str]:
            self.member(draft.pair, "pair", "evaluated pair")
            number = self._next("evaluation")
            content = commits.evaluation(transaction.staging, draft, number)
            return [transaction.add(Name("evaluation", number), content)]

        return self.run(fill)[0]

    def audit(self, draft: AuditDraft, expected: str | None, newest: Newest) -> str:
        """``newest`` tells the audit that stands inside the transaction. Raises ArchiveError where
        it isn't the ``expected`` one: someone else judged meanwhile, which mustn't be lost."""

        def fill(transaction: Transaction) -> list[str]:
            self.member(draft.of, "pair", "audited", "test", "evaluation")
            previous = newest(draft.of)
            if previous != expected:
                raise ArchiveError(
                    f"{draft.of[:12]} was audited by someone else meanwhile; run it again"
                )
            number = self._next("audit")
            content = commits.audit(transaction.staging, draft, number, previous)
            return [transaction.add(Name("audit", number), content)]

        return self.run(fill)[0]

    def _next(self, kind: str) -> int:
        done = self._state.numbered(kind)
        return done[-1][0].round + 1 if done else 1

    # --- what is there already ----------------------------------------------------------------

    def member(self, oid: str, kind: str, role: str, *also: str) -> Name:
        """The Name of an archived commit of that kind. Raises ArchiveError saying what it is."""
        found = identify(self._store, self._state, oid)
        if found and found.kind in (kind, *also):
            return found
        is_what = f"is {found.kind} {found.label}" if found else "is not in the archive"
        raise ArchiveError(f"{role}: {oid} {is_what}; an archived {kind} is needed")

    def find_code(self, code: str, rejected: bool = False) -> str | None:
        """The first harness with this code; among the rejected too, when asked."""
        if self._codes_at != self._state.oid:
            self._codes = {"harness": {}, "rejected": {}}
            self._learn(dict(reversed(list(self._state.newest_first(self._codes)))))
        found = self._codes["harness"].get(code)
        return found or (self._codes["rejected"].get(code) if rejected else None)

    def _learn(self, added: dict[Name, str]) -> None:
        for name, oid in added.items():
            if name.kind in self._codes:
                tree = str(self._store.commit(oid).tree_id)
                self._codes[name.kind].setdefault(trees.code_id_of(self._store, tree), oid)
        self._codes_at = self._state.oid


def identify(store: Store, state: State, oid: str) -> Name | None:
    """The Name that an oid has in the archive, None when it has none."""
    if len(oid) != 40:
        return None
    try:
        commit = store.repo.get(oid)
    except ValueError:
        return None
    name = reading.name_in(commit) if isinstance(commit, pygit2.Commit) else None
    return name if name and state.get(name) == oid else None


def land_names(store: Store, state: State, names: dict[Name, str], tip: str, clock: float) -> None:
    """Move the state to hold names whose commits are here already, all reached by ``tip``.

    Raises Moved, or ArchiveError when a name stands for something else in this archive.
    """
    new = {}
    for name, oid in names.items():
        if (old := state.get(name)) is None:
            new[name] = oid
        elif old != oid:
            raise ArchiveError(
                f"{name.kind} {name.label} is {old} here and {oid} below {tip}: two machines made "
                f"round {name.round} apart; keep one (set another run in params.yaml)"
            )
    with translated(f"rebuilding {state.ref}"):
        staging = Staging(store, clock)
        plan = state.plan(staging, new, parents=[tip])
        kept = staging.flush()
        state.swap(plan)
        kept.release()
