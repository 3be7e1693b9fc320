"""What the shell, the kernel and the harness add to each command of a terminal task.

    python benchmarks/terminal.py [--tasks 200] [--concurrency 16] [--latency 0.5]

Generated tasks of every family are solved by a scripted model in the general seed harness: some
looks around, then the task's own solution. A turn is timed from the model's reply to its next
request, so that everything between is counted: the harness, both ends of its pipe, the shell. The
baseline is a plain subprocess, ``bash -c`` with the same command in a folder of the same files, as
many at a time and as often. Printed: the median of both and of what a turn adds to its command
(limit 15 ms), the solution and the first command, which starts the sandbox, apart.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from engine.domains import Task
from engine.domains.terminal.domain import DOMAIN, problem
from engine.domains.terminal.packing import packed
from kernel import workspace
from kernel.contract import Completion, Limits, Message, Sampling, ToolSchema
from kernel.host import WorkerPool
from kernel.scripted import call, text

ROOT = Path(__file__).resolve().parent.parent
TARGET_MS = 15.0
LOOKS = (
    "ls -la",
    "find . -type f | sort | head -n 40",
    "du -sk .",
    'for f in *; do test -f "$f" && head -c 200 "$f"; done; true',
    "grep -rIl the . | wc -l",
    "ls -A | wc -l",
)


class Solver:
    """Looks around, then runs the solution; ``gaps`` are the seconds of each turn."""

    def __init__(self, task: Task, latency_s: float) -> None:
        made = problem(task)
        steps = [call("bash", {"command": command}) for command in (*LOOKS, made.solution)]
        steps += [call(name, arguments) for name, arguments in made.solution_calls]
        self._steps = iter([*steps, text("The task is done.")])
        self._latency, self._replied = latency_s, 0.0
        self.gaps: list[float] = []

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        if self._replied:
            self.gaps.append(time.perf_counter() - self._replied)
        await asyncio.sleep(self._latency)
        self._replied = time.perf_counter()
        return next(self._steps)


class Course(NamedTuple):
    """One task: seconds of the turn of each look, of starting, of the solution, and the score."""

    looks: list[float]
    solution: float
    score: float


async def solved(pool: WorkerPool, files: dict[str, bytes], task: Task, latency: float) -> Course:
    solver = Solver(task, latency)
    limits = Limits(turns=200, wall_s=600.0, **DOMAIN.limits)
    world = DOMAIN.world(task)
    run = await pool.run(files, task.instruction, solver, world, limits, Sampling(), 0)
    if run.end != "answered":
        raise RuntimeError(f"{task.id}: {run.end}: {run.error}")
    looks = solver.gaps[: len(LOOKS)]
    return Course(looks, solver.gaps[len(LOOKS)], DOMAIN.verify(task, run.answer).score)


async def plain(task: Task, latency: float) -> list[float]:
    """Seconds of each look as a plain subprocess."""
    made = problem(task)
    gaps = []
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(packed(made.files, made.programs))) as archive:
            archive.extractall(folder, filter="data")
        for command in LOOKS:
            await asyncio.sleep(latency)
            began = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                "bash",
                "-c",
                command,
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            await process.communicate()
            gaps.append(time.perf_counter() - began)
    return gaps


async def crowd(
    tasks: Sequence[Task], width: int, one: Callable[[Task], Awaitable[Any]]
) -> list[Any]:
    gate = asyncio.Semaphore(width)

    async def gated(task: Task) -> Any:
        async with gate:
            return await one(task)

    return await asyncio.gather(*[gated(task) for task in tasks])


async def measure(options: argparse.Namespace) -> dict[str, float]:
    count = options.tasks
    splits = DOMAIN.generate("benchmark", 0, {"train": 0, "validation": 0, "test": count})
    tasks = splits.test
    files = dict(workspace.read(ROOT / "seed_harnesses" / "general"))
    base = await crowd(tasks, options.concurrency, lambda task: plain(task, options.latency))
    began = time.perf_counter()
    async with WorkerPool(options.sandbox) as pool:
        runs: list[Course] = await crowd(
            tasks, options.concurrency, lambda task: solved(pool, files, task, options.latency)
        )
    wall = time.perf_counter() - began
    turns = list(itertools.chain.from_iterable(run.looks[1:] for run in runs))
    commands = list(itertools.chain.from_iterable(each[1:] for each in base))
    added = [turn - command for turn, command in zip(turns, commands, strict=True)]
    ms = 1000.0
    return {
        "tasks": len(tasks),
        "solved": sum(run.score == 1.0 for run in runs),
        "commands": len(turns),
        "plain_ms": ms * statistics.median(commands),
        "turn_ms": ms * statistics.median(turns),
        "added_ms": ms * statistics.median(added),
        "added_p90_ms": ms * statistics.quantiles(added, n=10)[-1],
        "first_ms": ms * statistics.median(run.looks[0] for run in runs),
        "solution_ms": ms * statistics.median(run.solution for run in runs),
        "wall_s": wall,
    }


def report(result: dict[str, float]) -> None:
    print(f"tasks solved                          {result['solved']:.0f} of {result['tasks']:.0f}")
    print(f"wall time                             {result['wall_s']:8.1f} s")
    print(f"commands timed                        {result['commands']:8.0f}")
    print(f"plain `bash -c` (baseline), median    {result['plain_ms']:8.2f} ms")
    print(f"a turn with the same, median          {result['turn_ms']:8.2f} ms")
    print(f"turn / plain                          {result['turn_ms'] / result['plain_ms']:8.2f}")
    print(f"added per command, median             {result['added_ms']:8.2f} ms (limit {TARGET_MS})")
    print(f"added per command, 90 %               {result['added_p90_ms']:8.2f} ms")
    print(f"first turn, with the sandbox's start  {result['first_ms']:8.2f} ms")
    print(f"the solutions, median                 {result['solution_ms']:8.2f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds per reply")
    parser.add_argument("--sandbox", default="bwrap")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(measure(options))
    if options.json:
        print(json.dumps({name: round(value, 3) for name, value in result.items()}))
    else:
        report(result)
    return 0 if result["added_ms"] < TARGET_MS and result["solved"] == result["tasks"] else 1


if __name__ == "__main__":
    sys.exit(main())
