"""Rollouts of an outside agent: the same tasks, worlds, verifier and journal as a harness's."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.context import Context
from engine.domains import Task
from engine.editors.sessions.agents import environment
from engine.editors.sessions.room import refuse_wide
from engine.editors.sessions.session import Ended, Launch, run
from engine.editors.sessions.watch import Limits, Table
from engine.errors import ModelError
from engine.evaluation.keys import digest, opaque_id, rollout_key, rollout_seed
from engine.evaluation.scheduler import together
from engine.llm.endpoint import Endpoint, configured
from engine.llm.gateway import Door, Gateway
from engine.llm.meter import open_meter
from engine.llm.usage import Caps
from engine.records import Rollout
from engine.solvers import agents, worldly
from engine.solvers.record import events
from engine.solvers.room import SolverRoom
from kernel.contract import HostWorld, LastingWorld
from kernel.trajectory import Trajectory

ROLE = "solver"
_COMMANDS_A_TURN = 50
_ERROR_CHARS = 2000


async def solve(
    context: Context, agent: str, split: str, tasks: Sequence[Task]
) -> tuple[list[Rollout], list[str]]:
    """An agent's rollouts on tasks, ``params.executions`` of each, and their journal keys. Raises
    ConfigError where the agent is missing, SandboxError, and ModelError for a dead endpoint."""
    params = context.params
    endpoint = configured(params.llm, ROLE, params.editors.model)
    launch = agents.launch(agent, params)
    mounts = (*launch.mounts, *(Path(each).expanduser() for each in params.editors.mounts))
    refuse_wide(mounts, context.root)
    tip = context.archive.tip()
    meter = open_meter(context.root, params, tip.round if tip else 0)
    folder = context.root / ".coevo" / "solvers" / params.run
    shutil.rmtree(folder, ignore_errors=True)
    try:
        async with Gateway(endpoint, meter, folder / "doors") as gateway:
            solver = _Solver(context, replace(launch, mounts=mounts), endpoint, gateway, folder)
            return await solver.all(split, tasks)
    finally:
        meter.close()
        shutil.rmtree(folder, ignore_errors=True)


class _Solver:
    def __init__(
        self, context: Context, launch: Launch, endpoint: Endpoint, gateway: Gateway, folder: Path
    ) -> None:
        self._context, self._launch, self._endpoint = context, launch, endpoint
        self._gateway, self._folder = gateway, folder
        self._places = asyncio.Semaphore(context.params.editors.parallel)
        self._table = Table()
        self._secret = context.split("validation").salt

    async def all(self, split: str, tasks: Sequence[Task]) -> tuple[list[Rollout], list[str]]:
        setting, params = self._context.setting(split), self._context.params
        own = digest([self._launch.label, list(self._launch.command), self._endpoint.model])
        jobs = [(task, n) for task in tasks for n in range(params.executions)]
        keys = [
            rollout_key(setting, own, "", task, n, rollout_seed(params.seed, task, n))
            for task, n in jobs
        ]
        known = dict(self._context.journal.get(set(keys)))
        todo = [(key, task) for key, (task, _) in zip(keys, jobs, strict=True) if key not in known]
        title = f"{self._launch.label} on {split}"
        with self._context.observer.bar(title, len(todo)) as bar:

            async def one(key: str, task: Task) -> None:
                async with self._places:
                    known[key] = await self._solved(key[:16], task, setting.limits.turns)
                self._context.journal.put(key, known[key])
                bar.advance()

            await together([one(key, task) for key, task in todo])
        rollouts = [
            await self._rollout(task, known[key]) for key, (task, _) in zip(keys, jobs, strict=True)
        ]
        return rollouts, keys

    async def _rollout(self, task: Task, trajectory: Trajectory) -> Rollout:
        verdict = await asyncio.to_thread(self._context.domain.verify, task, trajectory.answer)
        counts = {**verdict.counts, "turns": float(trajectory.turns)}
        return Rollout(
            opaque_id(self._secret, task), task, trajectory, replace(verdict, counts=counts)
        )

    async def _solved(self, name: str, task: Task, turns: int) -> Trajectory:
        """One session on one task."""
        began, folder = time.monotonic(), self._folder / name
        world = self._context.domain.world(task)
        disk = self._context.params.editors.disk_mb * 2**20
        socket = self._folder / "doors" / f"{name}.world"
        room = SolverRoom(
            folder, folder / "view", self._launch.mounts, self._launch.programs, disk, socket
        )
        room.furnish({"prompt.md": agents.prompt(task, world.rules)})
        transcript = folder / "transcript.jsonl"
        async with (
            _closing(world),
            worldly.opened(world, socket, turns * _COMMANDS_A_TURN) as inside,
            self._gateway.open(name, ROLE, Caps(calls=turns), transcript) as door,
        ):
            ended = await self._run(room, door)
            self._blame(door, name)
            if isinstance(world, LastingWorld):
                await world.settle()
            end, error = _end(ended, door)
            return Trajectory(
                events=tuple(events(transcript, inside.events)),
                end=end,
                answer=world.answer,
                turns=door.usage.calls,
                violations=0,
                prompt_tokens=door.usage.prompt_tokens,
                completion_tokens=door.usage.completion_tokens,
                wall_s=time.monotonic() - began,
                error=error,
            )

    async def _run(self, room: SolverRoom, door: Door) -> Ended:
        given = environment(self._endpoint.model, door.token)
        launch = replace(self._launch, environment={**given, **self._launch.environment})
        own = self._context.params.editors
        limits = Limits(own.wall_s, own.disk_mb * 2**20, own.memory_mb * 2**20, own.processes)
        return await run(room, launch, limits, self._table, door.socket)

    def _blame(self, door: Door, name: str) -> None:
        """Raises ModelError where the endpoint answered nothing: that is no score."""
        if door.trouble and door.usage.calls == door.usage.unanswered:
            raise ModelError(
                f"{ROLE} {name}: {door.trouble}; rollouts that had finished are kept, run it again"
            )


@contextlib.asynccontextmanager
async def _closing(world: HostWorld) -> AsyncIterator[None]:
    """A world that lasts is closed whatever happens."""
    try:
        yield
    finally:
        if isinstance(world, LastingWorld):
            await world.close()


def _end(ended: Ended, door: Door) -> tuple[str, str]:
    """The end reason of a session, and what is to be told of it."""
    said = " ".join(ended.said.split())[-_ERROR_CHARS:]
    if ended.excess:
        return "timeout", ended.excess
    if "budget" in door.trouble:
        return "turn_limit", ""
    if "context" in door.trouble and ended.status:
        return "context_overflow", door.trouble
    return ("harness_error", f"status {ended.status}: {said}") if ended.status else ("answered", "")
