"""The smart-home domain: household instructions to device commands (HomeBench's format)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.domains import Objective, Task, Verdict
from engine.domains.smart_home import generator, loader
from engine.domains.smart_home.direction import DIRECTION
from engine.domains.smart_home.homes import parse_home
from engine.domains.smart_home.row import SUBSETS
from engine.domains.smart_home.scoring import MAX_ANSWER, Counts, count, failure, figures
from engine.domains.smart_home.world import SmartHomeWorld
from engine.domains.split import TaskSplits


class SmartHome:
    """See engine.domains.Domain for the contract of each member."""

    name = "smart_home"
    turn_limit = 20
    entry_points: Mapping[str, tuple[str, ...]] = {
        "build_agent": ("settings", "client"),
        "Agent.initialize": ("instruction", "public_home", "tools"),
        "Agent.step": (),
        "Agent.receive_tool_result": ("message",),
    }
    seed_harness = Path(__file__).resolve().parents[3] / "seed_harnesses" / "smart_home"
    direction = DIRECTION

    def load(
        self, data: Path, seed: int, sizes: Mapping[str, int], *, skip_bad_rows: bool = False
    ) -> TaskSplits:
        return loader.load(data, seed, sizes, skip_bad_rows=skip_bad_rows)

    def generate(self, salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        return generator.generate(salt, seed, sizes)

    def world(self, task: Task) -> SmartHomeWorld:
        """The world of ``task.private['home']``; the reference answer stays behind."""
        return SmartHomeWorld(parse_home(task.private["home"], task.id))

    def practice(self, task: Task, instruction: str) -> Task:
        private = {"home": task.private["home"]}
        return Task("practice", instruction, task.public, private, content="", strata={})

    def verify(self, task: Task, answer: Any | None) -> Verdict:
        """Score 1 when the commands are the reference's, as multisets; else 0. An
        answer longer than ``MAX_ANSWER`` counts as one without commands."""
        commands = answer if isinstance(answer, str) else None
        if commands is not None and len(commands) > MAX_ANSWER:
            commands = ""
        gold = task.private["gold"]
        counts = count(commands or "", gold)
        return Verdict(
            score=float(counts.success),
            accepted=bool(counts.success),
            counts=counts.as_dict(),
            failure=failure(commands, gold),
        )

    def metrics(self, verdicts: Sequence[tuple[Task, Verdict]]) -> dict[str, float]:
        """``score`` (= ``success``), ``f1``, ``op_f1`` and ``success_XX`` of each subset present.

        ``op_f1`` leaves ``error_input`` out, so that rejecting everything scores 0 on it.
        """
        overall = figures(_summed(verdict for _, verdict in verdicts))
        result = {"score": overall["success"]} | overall
        for subset in SUBSETS:
            part = [verdict for task, verdict in verdicts if task.private["type"] == subset]
            if part:
                result[f"success_{subset}"] = figures(_summed(part))["success"]
        return result

    def objective(self, metrics: Mapping[str, float]) -> Objective:
        """Success, with both F1 not below the incumbent's and ``op_f1`` above 0."""
        return Objective(
            scalar=metrics["success"],
            gates={"f1": metrics["f1"], "op_f1": metrics["op_f1"]},
            tolerance={"f1": 0.0, "op_f1": 0.0},
            floors={"op_f1": 0.0},
        )


def _summed(verdicts: Any) -> dict[str, float]:
    total = Counts().as_dict()
    for verdict in verdicts:
        for key in total:
            total[key] += verdict.counts[key]
    return total


DOMAIN = SmartHome()
