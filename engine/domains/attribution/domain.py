"""The failure-attribution domain (Who&When, TracerTraj, and generated logs)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.domains import Objective, Task, Verdict
from engine.domains.attribution import generator, loader, scoring
from engine.domains.attribution.direction import DIRECTION
from engine.domains.attribution.filters import FILTERS
from engine.domains.attribution.world import AttributionWorld
from engine.domains.split import TaskSplits


class Attribution:
    """See engine.domains.Domain for the contract of each member.

    ``filters`` are those that training and validation tasks from files must pass (the paper's);
    ``lengths`` bounds the steps of generated logs. A run takes another choice by pointing
    ``domain:`` at an object of its own, as at ``LONG`` below.
    """

    name = "attribution"
    turn_limit = 20
    entry_points: Mapping[str, tuple[str, ...]] = {"build_harness": ("trace",)}
    seed_harness = Path(__file__).resolve().parents[3] / "seed_harnesses" / "attribution"
    direction = DIRECTION

    def __init__(
        self,
        filters: Sequence[str] = tuple(FILTERS),
        lengths: tuple[int, int] = generator.SHORT,
    ) -> None:
        self.filters, self.lengths = tuple(filters), lengths

    def load(
        self, data: Path, seed: int, sizes: Mapping[str, int], skip_bad_rows: bool = False
    ) -> TaskSplits:
        return loader.load(data, seed, sizes, filters=self.filters, skip_bad_rows=skip_bad_rows)

    def generate(self, salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        return generator.generate(salt, seed, sizes, self.lengths)

    def world(self, task: Task) -> AttributionWorld:
        """The world of ``task.private['texts']``; the label stays behind."""
        return AttributionWorld(task.public, task.private["texts"])

    def practice(self, task: Task, instruction: str) -> Task:
        public = {**task.public, "question": instruction}
        private = {"texts": task.private["texts"]}
        return Task("practice", instruction, public, private, content="", strata={})

    def verify(self, task: Task, answer: Any | None) -> Verdict:
        """Score: the objective's share of what is right; accepted when agent and step both are."""
        given = scoring.parse_answer(answer)
        found = scoring.counts(task.private["mistake_agent"], task.private["mistake_step"], given)
        return Verdict(
            score=scoring.objective(found["agent"], found["step"]),
            accepted=bool(found["agent"] and found["step"]),
            counts=found,
            failure=scoring.failure(found, given),
        )

    def metrics(self, verdicts: Sequence[tuple[Task, Verdict]]) -> dict[str, float]:
        """``score``, agent and step accuracy, and the benchmark's own (``official_*``)."""
        total: Counter[str] = Counter()
        for _, verdict in verdicts:
            total.update(verdict.counts)
        score = sum(verdict.score for _, verdict in verdicts) / max(len(verdicts), 1)
        return {"score": score} | scoring.figures(total)

    def objective(self, metrics: Mapping[str, float]) -> Objective:
        """Three parts agent accuracy, seven parts step accuracy; nothing gates."""
        scalar = scoring.objective(metrics["agent_accuracy"], metrics["step_accuracy"])
        return Objective(scalar=scalar, gates={})


DOMAIN = Attribution()
LONG = Attribution(lengths=generator.LONG)
"""With generated logs of up to 130 steps (``domain: engine.domains.attribution.domain:LONG``)."""
