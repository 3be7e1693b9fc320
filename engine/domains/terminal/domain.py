"""The terminal domain: generated tasks of several families, graded by what is left in a folder."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.domains import Objective, Task, Verdict
from engine.domains.split import TaskSplits, apportion, checked_sizes, interleave
from engine.domains.terminal.direction import DIRECTION
from engine.domains.terminal.families import FAMILIES, evolved, unseen
from engine.domains.terminal.honesty import HONESTY
from engine.domains.terminal.problem import DIFFICULTIES, Family, Problem
from engine.domains.terminal.world import TerminalWorld
from engine.errors import DataError

_UNSEEN_SHARE = 0.25
"""The part of the test split that families kept out of evolution have."""


class Terminal:
    """See engine.domains.Domain for the contract of each member."""

    name = "terminal"
    turn_limit = 60
    limits: Mapping[str, int] = {
        "output_bytes": 32 * 2**20,
        "message_bytes": 128 * 2**20,
        "record_bytes": 16 * 2**20,
    }
    """A careless command's whole output reaches the harness: keeping it short is its business."""
    entry_points: Mapping[str, tuple[str, ...]] = {}
    seed_harness = Path(__file__).resolve().parents[3] / "seed_harnesses" / "general"
    direction = DIRECTION

    def load(self, data: Path, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        raise DataError(
            f"params.yaml: data: {data}: terminal tasks are generated; set `data: null`"
        )

    def generate(self, salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        """Each split has equal shares of the families for evolution, at all difficulties; the test
        split has those that are kept out of it, too."""
        counts = checked_sizes(sizes)
        made = {
            split: _drawn(evolved(), count, f"{salt}/{seed}/{split}")
            for split, count in counts.items()
            if split != "test"
        }
        apart = round(counts["test"] * _UNSEEN_SHARE) if unseen() else 0
        seen = _drawn(evolved(), counts["test"] - apart, f"{salt}/{seed}/test")
        other = _drawn(unseen(), apart, f"{salt}/{seed}/test")
        test = interleave({"seen": seen, "unseen": other})
        return TaskSplits(made["train"], made["validation"], test)

    def world(self, task: Task) -> TerminalWorld:
        return TerminalWorld(problem(task))

    def practice(self, task: Task, instruction: str) -> Task:
        return Task("practice", instruction, task.public, task.private, content="", strata={})

    def verify(self, task: Task, answer: Any | None) -> Verdict:
        """The grading of what was left, which the world did when the rollout was over; partial
        credit is a score below 1 and isn't accepted."""
        score = float(answer["score"]) if answer else 0.0
        failure = "" if score == 1.0 else "partly done" if score else "not done"
        return Verdict(score, score == 1.0, {"score": score}, failure)

    def references(self, task: Task) -> list[str]:
        """For the audit: what gives the task away."""
        made = problem(task)
        return [made.solution, made.grader]

    def metrics(self, verdicts: Sequence[tuple[Task, Verdict]]) -> dict[str, float]:
        """``score``: the mean of the families' means, each weighing the same; ``family_X`` of each
        present, and the means of those in and out of distribution."""
        scores: dict[str, list[float]] = {}
        for task, verdict in verdicts:
            scores.setdefault(task.strata["family"], []).append(verdict.score)
        means = {name: fmean(scores[name]) for name in FAMILIES if name in scores}
        result = {"score": fmean(means.values()) if means else 0.0}
        for label, ood in (("in_distribution", False), ("out_of_distribution", True)):
            part = [mean for name, mean in means.items() if FAMILIES[name].ood is ood]
            if part:
                result[label] = fmean(part)
        return result | {f"family_{name}": mean for name, mean in means.items()}

    def objective(self, metrics: Mapping[str, float]) -> Objective:
        return Objective(scalar=metrics["score"], gates={})


def problem(task: Task) -> Problem:
    """A task's problem, made again from what its private part names."""
    private = task.private
    family = FAMILIES[private["family"]]
    return family.make(random.Random(private["key"]), int(private["difficulty"]))


def _drawn(families: Sequence[Family], count: int, salt: str) -> list[Task]:
    """``count`` tasks, families and difficulties in turn."""
    shares = apportion(count, {family.name: 1.0 for family in families}) if families else {}
    return interleave(
        {
            family.name: [_task(family, number, salt) for number in range(shares[family.name])]
            for family in families
        }
    )


def _task(family: Family, number: int, salt: str) -> Task:
    difficulty = DIFFICULTIES[number % len(DIFFICULTIES)]
    key = f"{salt}/{family.name}/{number}"
    made = family.make(random.Random(key), difficulty)
    identity = made.digest()
    return Task(
        id=f"{family.name}-{identity}",
        instruction=f"{made.instruction.strip()}\n\n{HONESTY}",
        public={},
        private={"family": family.name, "key": key, "difficulty": difficulty, "digest": identity},
        content=f"{family.name}-{identity}|{made.instruction}",
        strata={
            "family": family.name,
            "difficulty": str(difficulty),
            "ood": "yes" if family.ood else "no",
        },
    )


DOMAIN = Terminal()
