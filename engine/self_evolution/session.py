"""Update sessions: the agent is given its own harness to improve (paper §3.3, eq. 4 and 5).

A session is an ordinary rollout: the same model, the same harness version, the same kernel, in a
world of its own. What it leaves is extracted and checked; what fails goes to a repair session with
the checks' words, until the repairs are used up and H_t stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.archive.entries import Pair
from engine.brief import Brief
from engine.checks import CheckResult, check
from engine.context import Context
from engine.domains import Task
from engine.evaluation.keys import Setting, digest
from engine.evaluation.scheduler import Scheduler
from engine.leaks import Forbidden
from engine.params import SessionParams
from engine.self_evolution import draw, evidence, places, trials
from engine.self_evolution.curate import input_tokens
from engine.self_evolution.extraction import Files, Left
from engine.self_evolution.kernel_copy import kernel_folder
from engine.self_evolution.succession import Head
from engine.self_evolution.update import repair_task
from engine.self_evolution.world import UpdateWorld
from kernel.host import WorkerPool
from kernel.shell import ShellLimits
from kernel.trajectory import Trajectory

_OUTPUT_BYTES, _MESSAGE_BYTES, _RECORD_BYTES = 32 * 2**20, 256 * 2**20, 16 * 2**20
"""Of a session: reading whole records takes as much as any careless command prints."""


@dataclass(frozen=True)
class Attempt:
    """One session: what it was told, its record, the workspace it left, and what G_t says."""

    instruction: str
    trajectory: Trajectory
    files: Files
    result: CheckResult


@dataclass(frozen=True)
class Proposal:
    """All sessions of one lineage in a round, in order; the last one's result counts."""

    head: Head
    base: str
    attempts: tuple[Attempt, ...]

    @property
    def files(self) -> Files:
        return self.attempts[-1].files

    @property
    def result(self) -> CheckResult:
        return self.attempts[-1].result


class Proposer:
    """The sessions of a round, and what no harness may hold."""

    def __init__(self, context: Context, scheduler: Scheduler, pool: WorkerPool) -> None:
        self._context, self._scheduler, self._pool = context, scheduler, pool
        self._round = context.opened().round
        self.budget = draw.schedule(context)[self._round].budget
        tasks = {split: context.tasks(split) for split in ("train", "validation")}
        self._forbidden = Forbidden.of_tasks(context.domain, tasks["train"], tasks["validation"])
        self._practice = _practice(context, tasks["train"][0])
        limits = context.params.evolution.session.limits(context.domain.turn_limit)
        roomy = replace(
            limits,
            output_bytes=_OUTPUT_BYTES,
            message_bytes=_MESSAGE_BYTES,
            record_bytes=_RECORD_BYTES,
        )
        self._setting: Setting = replace(context.setting("update"), limits=roomy)

    async def propose(self, brief: Brief, head: Head) -> Proposal:
        """The update session, then repairs while the checks fail."""
        pair = self._context.archive.pair(head.pair)
        base = dict(self._context.archive.harness(pair.harness).files)
        attempts = [await self._attempt(brief.hypothesis, head, pair, base, base, 0)]
        for number in range(1, self._context.params.evolution.repairs + 1):
            last = attempts[-1]
            if last.result.ok:
                break
            self._context.observer.say(f"  {head.slot} goes back: {last.result.line[:200]}")
            text = repair_task(
                self.budget,
                input_tokens(self._context),
                evidence.shows_previous(self._context, head),
                last.result.reasons,
            )
            attempts.append(await self._attempt(text, head, pair, base, last.files, number))
        return Proposal(head, pair.harness, tuple(attempts))

    async def _attempt(
        self, text: str, head: Head, pair: Pair, base: Files, start: Files, number: int
    ) -> Attempt:
        seed = int(digest([self._context.params.seed, self._round, head.slot, number])[:7], 16)
        agent = self._context.agent(pair.harness, pair.checkpoint)
        key = digest(
            [
                self._setting.fingerprint(),
                [agent.weights, evidence.fingerprint(self._context, head.slot)],
                [text, _hashed(start), seed],
            ]
        )
        trajectory = await self._scheduler.session(
            agent, text, lambda: self._world(head, start), self._setting, key, seed
        )
        assert trajectory.answer is not None  # its world settles, however it ends
        left = Left.from_json(trajectory.answer["workspace"])
        files = start if left.files is None else left.files
        return Attempt(text, trajectory, files, await self._check(left, trajectory, base))

    def _world(self, head: Head, start: Files) -> UpdateWorld:
        folder = evidence.folder(self._context, head.slot)
        mounts = {
            places.KERNEL: kernel_folder(self._context.root),
            places.BASE: folder / evidence.BASE,
            places.TRIALS: folder / evidence.TRIALS,
        }
        return UpdateWorld(start, mounts, _shell_limits(self._context.params.evolution.session))

    async def _check(self, left: Left, trajectory: Trajectory, base: Files) -> CheckResult:
        """G_t: what the extraction found, then the same checks as any offspring's."""
        if left.files is None:
            return CheckResult((left.reason,))
        result = await check(
            left.files,
            base,
            domain=self._context.domain,
            practice=self._practice,
            forbidden=self._forbidden,
            line_budget=self.budget,
            duplicate_of=None,
            pool=self._pool,
        )
        reasons = result.reasons
        if reasons and trajectory.end != "answered":
            said = f": {trajectory.error.strip().splitlines()[-1]}" if trajectory.error else ""
            reasons = (*reasons, f"session: it ended in {trajectory.end}{said}")
        return replace(result, reasons=reasons)


def _shell_limits(params: SessionParams) -> ShellLimits:
    return ShellLimits(
        command_s=params.wall_s,
        cpu_s=params.cpu_s,
        memory_bytes=params.memory_mb * 2**20,
        processes=params.processes,
        folder_bytes=params.tmp_mb * 2**20,
    )


def _practice(context: Context, sample: Task) -> Task:
    return context.domain.practice(sample, sample.instruction)


def _hashed(files: Mapping[str, bytes]) -> str:
    return digest({name: digest(data.hex()) for name, data in files.items()})


def write_sessions(folder: Path, attempts: Sequence[Attempt]) -> None:
    """The record of a lineage's sessions, as the next round's proposer reads it: ``update``, then
    ``repair-1``..., each with what it was told, its trajectory, and what the checks said."""
    for number, attempt in enumerate(attempts):
        place = folder / (f"repair-{number}" if number else "update")
        place.mkdir(parents=True)
        (place / "instruction.md").write_text(attempt.instruction, "utf-8", "replace")
        facts = {
            "check": attempt.result.line,
            "added_lines": attempt.result.added,
            **trials.ending(attempt.trajectory),
        }
        (place / "result.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        answer = {"logs": (attempt.trajectory.answer or {}).get("logs", {})}
        trials.write_record(place, replace(attempt.trajectory, answer=answer))
