"""What can be audited: the kept rollouts of a pair, a test or an evaluation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.archive.entries import Evaluation, Pair, TestResult
from engine.context import Context
from engine.domains import Task
from engine.errors import ArchiveError
from engine.evaluation.keys import digest, opaque_id
from engine.splits import NAMES
from engine.testing import opened
from kernel.trajectory import Trajectory

Audited = Pair | TestResult | Evaluation


@dataclass(frozen=True)
class Kept:
    """One kept rollout: which execution of which task, and what was recorded."""

    task: str
    execution: int
    score: float
    trajectory: Trajectory

    @cached_property
    def digest(self) -> str:
        return digest(self.trajectory.to_json())


@dataclass(frozen=True)
class Subject:
    """An archived measurement with its rollouts."""

    entry: Audited
    kind: str
    rollouts: tuple[Kept, ...]

    @property
    def name(self) -> str:
        """``pair r003-k2``, ``test 2``."""
        return f"{self.kind} {self.entry.label}"


def entries(context: Context) -> Iterator[tuple[str, Audited]]:
    """Everything that can be audited, oldest first within its kind."""
    for pair in context.archive.pairs():
        yield "pair", pair
    for test in context.archive.tests():
        if "rollouts.dvc" in test.files:
            yield "test", test
    for evaluation in context.archive.evaluations():
        yield "evaluation", evaluation


def named(context: Context, text: str) -> tuple[str, Audited]:
    """What ``text`` stands for; a round stands for its incumbent. Raises ArchiveError."""
    kind, oid = context.archive.resolve(text)
    if kind == "round":
        return "pair", context.archive.pair(context.archive.round(oid).incumbent)
    entry = context.archive.get(oid)
    if isinstance(entry, Pair | TestResult | Evaluation) and "rollouts.dvc" in entry.files:
        return kind, entry
    raise ArchiveError(f"{text}: a {kind} keeps no rollouts; name a pair, test or evaluation")


def load(context: Context, kind: str, entry: Audited) -> Subject:
    """With the rollouts, from this disk, DVC's cache or its remote. Raises DataError."""
    scratch = context.root / ".coevo" / "audit" / f"{entry.oid}.jsonl"
    text = entry.files["rollouts.dvc"].decode()
    try:
        data = context.dvc.materialise(text, scratch).read_bytes()
    finally:
        scratch.unlink(missing_ok=True)
    seen: Counter[str] = Counter()
    found = []
    for line in data.splitlines():
        record: dict[str, Any] = json.loads(line)
        name = record["task"]
        trajectory = Trajectory.from_json(record["trajectory"])
        found.append(Kept(name, seen[name], record["score"], trajectory))
        seen[name] += 1
    return Subject(entry, kind, tuple(found))


def tasks(context: Context) -> Mapping[str, Task]:
    """Every task of the frozen splits by its opaque id, the test split's too."""
    whole = opened(context)
    secret = whole.split("validation").salt
    return {opaque_id(secret, task): task for name in NAMES for task in whole.tasks(name)}
