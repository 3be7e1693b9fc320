"""The ``harbor`` domain: Harbor's task folders as tasks (``data:`` names a folder of them)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.domains import Objective, Task, Verdict
from engine.domains.split import TaskSplits, apportion, checked_sizes
from engine.domains.terminal.honesty import HONESTY
from engine.domains.terminal.packing import unpacked
from engine.errors import DataError
from engine.evaluation.keys import digest
from engine.harbor import folder
from engine.harbor.folder import HarborTask
from engine.harbor.world import HarborWorld

_LARGEST = 2**20


class Harbor:
    """See engine.domains.Domain for the contract of each member."""

    name = "harbor"
    turn_limit = 200
    limits: Mapping[str, int] = {"output_bytes": 32 * 2**20, "message_bytes": 256 * 2**20}
    entry_points: Mapping[str, tuple[str, ...]] = {}
    seed_harness = Path(__file__).resolve().parents[2] / "seed_harnesses" / "general"
    direction = (
        "Tasks are folders in Harbor's format: an instruction for work in a Linux shell, graded by "
        "tests that are put in place when the agent has finished. The score is the tests' reward."
    )

    def load(
        self, data: Path, seed: int, sizes: Mapping[str, int], skip_bad_rows: bool = False
    ) -> TaskSplits:
        """The task folders below ``data``, divided as ``sizes`` are. Raises DataError for a folder
        that is broken or needs a container, and where there are too few."""
        counts = checked_sizes(sizes)
        found: list[HarborTask] = []
        skipped: list[str] = []
        for path in folder.tasks(data):
            try:
                found.append(folder.read(path))
            except DataError as error:
                if not skip_bad_rows:
                    raise
                skipped.append(str(error))
        if not found:
            raise DataError(f"{data}: no task folder that runs here (a folder with task.toml)")
        random.Random(seed).shuffle(found)
        parts = _divided([_task(each) for each in found], counts, data)
        return TaskSplits(parts["train"], parts["validation"], parts["test"], skipped)

    def generate(self, salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        raise DataError(
            "params.yaml: domain: harbor has no generator; `data:` names a folder of task folders"
        )

    def world(self, task: Task) -> HarborWorld:
        return HarborWorld(HarborTask.from_json(task.private))

    def practice(self, task: Task, instruction: str) -> Task:
        return Task("practice", instruction, {}, task.private, content="", strata={})

    def verify(self, task: Task, answer: Any | None) -> Verdict:
        score = float(answer["score"]) if answer else 0.0
        failure = "" if score == 1.0 else "partly done" if score else "not done"
        return Verdict(score, score == 1.0, {"score": score}, failure)

    def metrics(self, verdicts: Sequence[tuple[Task, Verdict]]) -> dict[str, float]:
        """``score``: the mean of the families' means."""
        scores: dict[str, list[float]] = {}
        for task, verdict in verdicts:
            scores.setdefault(task.strata["family"], []).append(verdict.score)
        means = [fmean(each) for each in scores.values()]
        return {"score": fmean(means) if means else 0.0}

    def objective(self, metrics: Mapping[str, float]) -> Objective:
        return Objective(scalar=metrics["score"], gates={})

    def references(self, task: Task) -> list[str]:
        """For the audit: the solution and the tests."""
        made = HarborTask.from_json(task.private)
        files = [
            *unpacked(made.solution, _LARGEST).values(),
            *unpacked(made.tests, _LARGEST).values(),
        ]
        return [data.decode("utf-8", "replace") for data in files]


def _task(made: HarborTask) -> Task:
    family = made.tags[0] if made.tags else "harbor"
    return Task(
        id=f"{made.name}-{digest(made.to_json())[:12]}",
        instruction=f"{made.instruction}\n\n{HONESTY}",
        public={},
        private=made.to_json(),
        content=f"{made.name}|{made.instruction}",
        strata={"family": family, "ood": "no"},
    )


def _divided(
    tasks: Sequence[Task], counts: Mapping[str, int], data: Path
) -> Mapping[str, Sequence[Task]]:
    """As many for each split as asked for. Raises DataError with the arithmetic."""
    wanted = sum(counts.values())
    if wanted > len(tasks):
        shares = apportion(len(tasks), {name: float(n) for name, n in counts.items()})
        sizes = ", ".join(f"{name}: {n}" for name, n in shares.items())
        raise DataError(
            f"{data}: {len(tasks)} tasks run here, and splits need "
            f"{' + '.join(str(n) for n in counts.values())} = {wanted}; set splits: {{{sizes}}}"
        )
    parts, start = {}, 0
    for name, count in counts.items():
        parts[name] = tuple(tasks[start : start + count])
        start += count
    return parts


DOMAIN = Harbor()
