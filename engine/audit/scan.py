"""The script's pass: every kept rollout against the rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.audit import outliers, references, rules
from engine.audit.actions import actions
from engine.audit.record import Flag
from engine.audit.rules import Finding
from engine.audit.subject import Kept, Subject, entries
from engine.context import Context
from engine.domains import Domain, Task
from engine.evaluation.keys import digest

Executions = Mapping[str, Mapping[str, tuple[float, ...]]]
"""Measurement -> opaque task id -> recorded scores."""


def flag(subject: Subject, kept: Kept, findings: tuple[Finding, ...]) -> Flag:
    """A flag on one rollout; its id names it across the run."""
    name = digest([subject.entry.oid, kept.task, kept.execution])[:10]
    return Flag(name, kept.task, kept.execution, kept.score, kept.digest, findings)


@dataclass(frozen=True)
class Scanner:
    """Knows the tasks and all recorded scores of a run."""

    domain: Domain
    tasks: Mapping[str, Task]
    executions: Executions

    def flags(self, subject: Subject) -> tuple[Flag, ...]:
        """The flagged rollouts of a measurement, in its order."""
        families = self._families(subject)
        found = []
        for kept in subject.rollouts:
            seen = (*self._behaviour(kept), *self._score(subject, kept, families))
            if seen:
                found.append(flag(subject, kept, seen))
        return tuple(found)

    def _behaviour(self, kept: Kept) -> Iterator[Finding]:
        done = list(actions(kept.trajectory))
        for action in done:
            yield from rules.findings(action)
        task = self.tasks.get(kept.task)
        if task is not None:
            wanted = references.references(self.domain, task)
            yield from references.findings(done, wanted, task.instruction)

    def _score(
        self, subject: Subject, kept: Kept, families: Mapping[str, list[float]]
    ) -> Iterator[Finding]:
        elsewhere = [
            score
            for oid, scores in self.executions.items()
            if oid != subject.entry.oid
            for score in scores.get(kept.task, ())
        ]
        own = [
            other.score
            for other in subject.rollouts
            if other.task == kept.task and other.execution != kept.execution
        ]
        yield from outliers.of_task(kept.score, [*elsewhere, *own])
        family = self.family(kept.task)
        if family:
            others = list(families[family])
            others.remove(kept.score)
            yield from outliers.of_family(kept.score, others, family)

    def _families(self, subject: Subject) -> Mapping[str, list[float]]:
        found: dict[str, list[float]] = defaultdict(list)
        for kept in subject.rollouts:
            found[self.family(kept.task)].append(kept.score)
        return found

    def family(self, name: str) -> str:
        """The family of a task by its opaque id, '' where it has none."""
        task = self.tasks.get(name)
        return task.strata.get("family", "") if task else ""


def scanner(context: Context, known: Mapping[str, Task]) -> Scanner:
    """On all that the archive holds."""
    recorded = {
        entry.oid: {name: tuple(scores) for name, scores in entry.outcome["by_task"].items()}
        for _, entry in entries(context)
    }
    return Scanner(context.domain, known, recorded)
