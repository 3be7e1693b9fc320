"""The archive of one run: what the stages write to and everything reads from.

Objects are staged in memory and written as one pack; then one ref, ``refs/coevo/R/state``, moves
by compare-and-swap, and the branches people see follow it. So an addition is there wholly or not
at all, whenever its process dies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from engine.archive import branches, export, lock, notes, published, reading, rebuild, refs, trees
from engine.archive import configure as configuring
from engine.archive import recover as recovering
from engine.archive import resolve as resolving
from engine.archive.drafts import (
    AuditDraft,
    CheckpointDraft,
    EvaluationDraft,
    HarnessDraft,
    PairDraft,
    RoundDraft,
    TestDraft,
)
from engine.archive.entries import (
    Audit,
    Checkpoint,
    Entry,
    Evaluation,
    Harness,
    Pair,
    Round,
    TestResult,
)
from engine.archive.record import Recorder, identify, land_names
from engine.archive.recover import Recovered
from engine.archive.refs import Name
from engine.archive.resolve import Found, Named
from engine.archive.state import Moved, State
from engine.archive.store import Store, translated
from engine.errors import ArchiveError

T = TypeVar("T", bound=Entry)
_KINDS: Mapping[type[Entry], tuple[str, ...]] = {
    Harness: ("harness", "rejected"),
    Checkpoint: ("checkpoint",),
    Pair: ("pair",),
    Round: ("round",),
    TestResult: ("test",),
    Evaluation: ("evaluation",),
    Audit: ("audit",),
}


class Archive:
    """One run's archive. Objects are named by full hex ids; what is added is never changed."""

    def __init__(self, store: Store, run: str, clock: Callable[[], float]) -> None:
        self._store, self.run, self._clock = store, refs.check_run(run), clock
        branches.check(store, run)
        self._state = State(store, run)
        self._recorder = Recorder(store, self._state, clock)
        self._holding = False
        self._audits: dict[str, str] = {}
        self._audits_read, self._audits_at = 0, ""  # up to which one, at which state

    @classmethod
    def open(cls, path: Path, run: str, clock: Callable[[], float] = time.time) -> Archive:
        """The archive of ``run`` in the repository around ``path``.

        In a fresh clone, where only ``R/evolution`` is there, the state is rebuilt first. Commits
        carry user.name and user.email, or ``CoEvo <coevo@localhost>`` when git knows neither; no
        other setting of the user is read. Raises ArchiveError for what is no usable repository
        (none, bare, shallow, partial) and for refs below ``R/`` that aren't the archive's.
        """
        archive = cls(Store(path), run, clock)
        if archive._state.oid is None and rebuild.known_tip(archive._store, run):
            archive.rebuild_state()
        return archive

    @property
    def gitdir(self) -> Path:
        """The git directory that all worktrees share; the engine's own files are in ``coevo/``."""
        return self._store.gitdir

    # --- one engine at a time, and after a death ----------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run. Raises ArchiveLocked naming pid, host and since when; a dead holder's lock
        is taken over. Additions don't need it (they never clash), stages do. Branches of a burst of
        additions are written when it is released, at the latest."""
        with lock.held(self._store.gitdir, self.run):
            follower = self._recorder.follower
            self._holding = follower.bulk = True
            try:
                yield
            finally:
                self._holding = follower.bulk = False
                with translated("writing the branches"):
                    follower.flush()

    def recover(self) -> Recovered:
        """Mend what a dead process left; to be called at each start. Says what there was.

        Takes the lock when it isn't held. Lock files of live processes are waited for, then named
        in an ArchiveError; so are branches that someone moved.
        """
        if not self._holding:
            with self.lock():
                return self.recover()
        self._follow_pulled()
        done = recovering.recover(self._store, self._state)
        branches.upkeep(self._store, self._state)
        return done

    def _follow_pulled(self) -> None:
        """Take in rounds of another machine that ``git pull`` put on the evolution branch."""
        branch = self._store.target(refs.evolution(self.run))
        self._state.refresh()
        tip = self._state.tip
        if (
            branch
            and branch != tip
            and (tip is None or self._store.repo.descendant_of(branch, tip))
        ):
            self.rebuild_state()

    def rebuild_state(self) -> int:
        """Make or extend the state, and the branches, from ``R/evolution`` (else a remote's).

        How many names the state holds. Raises ArchiveError when there is no such branch or its
        history is incomplete, merged by hand or at odds with this archive.
        """
        tip = rebuild.known_tip(self._store, self.run)
        if tip is None:
            raise ArchiveError(
                f"no {self.run}/evolution here: git fetch it, or start with coevo run"
            )
        names = rebuild.names_below(self._store, tip)
        try:
            land_names(self._store, self._state, names, tip, self._clock())
        except Moved:
            self._state.refresh()
        branches.rebuild(self._store, self._state)
        branches.upkeep(self._store, self._state)
        return len(names)

    def configure(self) -> None:
        """Local aliases (git rounds, lineage, weights) and the notes that git log shows."""
        configuring.configure(self._store, self.run)

    def notes_rebuild(self) -> int:
        """Write the derived notes (each harness's best outcome) anew; how many there are."""
        standing = ((pair, self.standing(pair)) for pair in self.pairs())
        pairs = (replace(p, score=o.get("score"), timr=o.get("timr")) for p, o in standing)
        return notes.rebuild(self._store, pairs, self._clock())

    # --- where the Hub has pairs ----------------------------------------------------------------

    def publish(self, pair: str, facts: Mapping[str, Any]) -> None:
        """Note beside a pair's commit where it was published; nothing archived changes."""
        oid = self.pair(pair).oid
        published.add(self._store, refs.publications(self.run), oid, facts, self._clock())

    def publications(self) -> dict[str, list[Mapping[str, Any]]]:
        """What ``publish`` noted: pair -> its places, oldest first."""
        return published.read(self._store, refs.publications(self.run))

    def merge_publications(self, ref: str) -> None:
        """Take in the notes that another clone made, which were fetched to ``ref``."""
        published.merge(self._store, refs.publications(self.run), ref, self._clock())

    # --- adding: each returns the full id, and the same id when it is there already -----------

    def record_harness(self, draft: HarnessDraft) -> str:
        """Archive one harness. Raises ArchiveError: unknown base, bad path, name taken."""
        return self._recorder.harnesses([draft])[0]

    def record_harnesses(self, drafts: Sequence[HarnessDraft]) -> list[str]:
        """Archive a round's offspring so that all K appear together, rejected ones too."""
        return self._recorder.harnesses(drafts)

    def record_checkpoint(self, draft: CheckpointDraft) -> str:
        return self._recorder.checkpoint(draft)

    def record_pair(self, draft: PairDraft) -> str:
        return self._recorder.pair(draft)

    def record_round(self, draft: RoundDraft) -> str:
        """End a round: ``R/evolution`` moves to it. Raises ArchiveError when it isn't the next."""
        return self._recorder.round(draft)

    def record_test(
        self,
        *,
        pair: str,
        outcome: Mapping[str, Any],
        subject: str,
        rollouts_dvc: str = "",
        eval_key: str = "",
    ) -> str:
        """Keep one use of the test split, out of every round's reach. Each call is a new commit."""
        return self._recorder.test(TestDraft(pair, outcome, subject, rollouts_dvc, eval_key))

    def record_evaluation(self, draft: EvaluationDraft) -> str:
        """Keep a measurement of a frozen version, out of every round's reach."""
        return self._recorder.evaluation(draft)

    def record_audit(self, draft: AuditDraft, expected: str | None) -> str:
        """Keep what an audit found, in place of the ``expected`` one (None: the first)."""
        return self._recorder.audit(draft, expected, self._newest_audit)

    # --- reading ------------------------------------------------------------------------------

    def resolve(self, text: str) -> Found:
        """(kind, oid) of a hash, prefix, ref or label; ``tip`` is the newest round.

        Raises ArchiveError for what is unknown ("did you mean") or stands for several.
        """
        return self._named(text).found

    def get(self, text: str) -> Entry:
        """The entry of any kind that ``text`` stands for."""
        return self._read(*self._named(text))

    def harness(self, text: str) -> Harness:
        return self._one(text, Harness)

    def checkpoint(self, text: str) -> Checkpoint:
        return self._one(text, Checkpoint)

    def pair(self, text: str) -> Pair:
        return self._one(text, Pair)

    def round(self, text: str) -> Round:
        return self._one(text, Round)

    def tip(self) -> Round | None:
        """The newest finished round, None before the first."""
        self._state.refresh()
        return self.round(self._state.tip) if self._state.tip else None

    def harnesses(self, include_rejected: bool = False, limit: int | None = None) -> list[Harness]:
        """Harnesses by round and slot, newest last; with ``limit`` the last so many."""
        kinds = ("harness", "rejected") if include_rejected else ("harness",)
        return self._list(Harness, kinds, limit)

    def checkpoints(self, limit: int | None = None) -> list[Checkpoint]:
        return self._list(Checkpoint, ("checkpoint",), limit)

    def pairs(
        self,
        limit: int | None = None,
        harness: str | None = None,
        checkpoint: str | None = None,
        since: int = 0,
    ) -> list[Pair]:
        """Measured pairs, newest last; only those of one harness or checkpoint when given, and of
        no round before ``since``."""
        wanted = {oid for oid in (harness, checkpoint) if oid}

        def holds(oid: str) -> bool:
            return wanted <= {str(parent) for parent in self._store.commit(oid).parent_ids}

        return self._list(Pair, ("pair",), limit, holds if wanted else None, since)

    def rounds(self, limit: int | None = None, since: int = 0) -> list[Round]:
        return self._list(Round, ("round",), limit, since=since)

    def tests(self) -> list[TestResult]:
        """The uses of the test split. No stage of a round may call this."""
        self._state.refresh()
        return [self._typed(TestResult, *found) for found in self._state.numbered("test")]

    def evaluations(self) -> list[Evaluation]:
        """Frozen versions measured outside the rounds. No stage of a round may call this."""
        self._state.refresh()
        return [self._typed(Evaluation, *found) for found in self._state.numbered("evaluation")]

    def audit(self, oid: str) -> Audit | None:
        """The audit that stands of a pair, test or evaluation."""
        self._state.refresh()
        newest = self._newest_audit(oid)
        return self._one(newest, Audit) if newest else None

    def standing(self, entry: Pair | TestResult | Evaluation) -> Mapping[str, Any]:
        """The outcome as it stands: where an audit confirmed rollouts, they score 0 in it."""
        audit = self.audit(entry.oid)
        return audit.outcome if audit and audit.outcome is not None else entry.outcome

    def _newest_audit(self, oid: str) -> str | None:
        if self._audits_at != self._state.oid:
            for name, audit in self._state.numbered("audit"):
                if name.round > self._audits_read:
                    self._audits[str(self._store.commit(audit).parent_ids[0])] = audit
                    self._audits_read = name.round
            self._audits_at = self._state.oid or ""
        return self._audits.get(oid)

    def export(self, branches: Mapping[str, str], head: str, folder: Path) -> None:
        """A repository of its own at ``folder`` that holds these commits (branch name -> oid) and
        nothing else of this one, with ``head`` checked out nowhere. Raises ArchiveError."""
        export.export(self._store, branches, head, folder)

    def lineage(self, text: str) -> list[Harness]:
        """A harness and the bases it descends from, itself first."""
        chain = [self.harness(text)]
        while base := chain[-1].base:
            chain.append(self.harness(base))
        return chain

    def read(self, text: str, path: str) -> bytes:
        """One file of an archived commit. Raises ArchiveError naming the near misses."""
        files = self.get(text).files
        if path not in files:
            raise ArchiveError(f"{text} has no file {path!r}; it has {', '.join(list(files)[:12])}")
        return files[path]

    @staticmethod
    def code_id(files: Mapping[str, bytes]) -> str:
        """The identity of a workspace's code: its git tree without notes and report."""
        return trees.code_id(files)

    def find_code(self, code_id: str, include_rejected: bool = False) -> str | None:
        """The first harness with this code, None when it is new."""
        self._state.refresh()
        return self._recorder.find_code(code_id, include_rejected)

    def _one(self, text: str, kind: type[T]) -> T:
        return self._typed(kind, *self._named(text, _KINDS[kind]))

    def _named(self, text: str, kinds: Sequence[str] = refs.KINDS) -> Named:
        self._state.refresh()
        wanted = text.strip().lower()
        if name := identify(self._store, self._state, wanted):
            return Named(name, wanted)
        return resolving.resolve(self._state, text, kinds)

    def _typed(self, kind: type[T], name: Name, oid: str) -> T:
        entry = self._read(name, oid)
        if not isinstance(entry, kind):
            raise ArchiveError(
                f"{name.label} ({oid[:10]}) is a {name.kind}, not a {kind.__name__.lower()}"
            )
        return entry

    def _read(self, name: Name, oid: str) -> Entry:
        return reading.read(self._store, self.run, name, oid)

    def _list(
        self,
        kind: type[T],
        kinds: Sequence[str],
        limit: int | None,
        wanted: Callable[[str], bool] | None = None,
        since: int = 0,
    ) -> list[T]:
        self._state.refresh()
        found: list[T] = []
        for name, oid in self._state.newest_first(kinds):
            if name.round < since or (limit is not None and len(found) >= limit):
                break
            if wanted is None or wanted(oid):
                found.append(self._typed(kind, name, oid))
        return found[::-1]

    # last, since its name hides the type in annotations that follow
    def list(self, text: str, under: str = "") -> Sequence[str]:
        """The paths of an archived commit's files, those of one folder when given."""
        prefix = f"{under.rstrip('/')}/" if under else ""
        return [path for path in self.get(text).files if path.startswith(prefix)]
