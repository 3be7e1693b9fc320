"""Rollouts side by side: bounded, grouped by checkpoint, journalled as they finish."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from engine.domains import Domain, Task
from engine.errors import CoevoError, ModelError, SandboxError
from engine.evaluation.executor import executor
from engine.evaluation.journal import Journal
from engine.evaluation.keys import Setting, opaque_id, rollout_key, rollout_seed
from engine.observer import Bar, Observer, paced
from engine.records import Cost, Rollout
from engine.serving.base import Server
from kernel.contract import HostWorld, ModelUnavailable
from kernel.host import WorkerPool
from kernel.sandbox import SandboxUnavailable, WorkerLost
from kernel.trajectory import Trajectory

T = TypeVar("T")
_LOST_TRIES = 3


@dataclass(frozen=True)
class Agent:
    """A pair that is ready to run: the harness's files and the checkpoint's folder."""

    files: Mapping[str, bytes]
    code_id: str
    folder: Path
    weights: str


@dataclass(frozen=True)
class Job:
    """One rollout to do."""

    agent: Agent
    task: Task
    execution: int = 0


class Scheduler:
    """Runs rollouts on one server. Server and sandbox start at the first rollout that the journal
    doesn't have, so a stage whose rollouts are all known costs nothing."""

    def __init__(
        self,
        domain: Domain,
        journal: Journal | None,
        server: Server,
        observer: Observer,
        *,
        secret: bytes,
        run_seed: int,
        concurrency: int,
        sandbox: str,
        where: str = "local",
    ) -> None:
        self._domain, self._journal, self._server = domain, journal, server
        self._observer, self._secret, self._run_seed = observer, secret, run_seed
        self._concurrency = concurrency
        self._gate = asyncio.Semaphore(concurrency)
        self._executor = executor(where, domain, sandbox, observer)
        self._sessions = WorkerPool(sandbox=sandbox)
        self._for_sessions = False
        self._loaded = ""
        self._started = False
        self._starting = asyncio.Lock()
        self.cost = Cost()

    async def __aenter__(self) -> Scheduler:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._started:
            await self._sessions.__aexit__(None, None, None)
            await self._executor.stop()
            await self._server.stop()

    async def many(self, jobs: Sequence[Job], setting: Setting, title: str) -> list[Rollout]:
        """All jobs' rollouts, in their order. Raises ModelError when the endpoint is dead."""
        start = time.monotonic()
        keys = [self._key(job, setting) for job in jobs]
        known = self._journal.get(set(keys)) if self._journal is not None else {}
        found: dict[int, Trajectory] = {i: known[key] for i, key in enumerate(keys) if key in known}
        self.cost += Cost(cached=len(found))
        # One checkpoint at a time (a server holds one; the one it holds first), harness by harness
        # (prompts share a prefix, which servers cache).
        todo = sorted(
            (i for i in range(len(jobs)) if i not in found),
            key=lambda i: (
                jobs[i].agent.weights != self._loaded,
                jobs[i].agent.weights,
                jobs[i].agent.code_id,
                i,
            ),
        )
        if todo:
            await self._start()
            with self._observer.bar(title, len(todo)) as bar:
                for part in _grouped(todo, lambda i: jobs[i].agent.weights):
                    self._loaded = jobs[part[0]].agent.weights
                    work = [self._fresh(jobs[i], keys[i], setting, bar) for i in part]
                    for i, done in zip(part, await together(work), strict=True):
                        found[i] = done
        self.cost += Cost(seconds=time.monotonic() - start)
        return [await self._rollout(job.task, found[i]) for i, job in enumerate(jobs)]

    async def until_accepted(
        self, agent: Agent, tasks: Sequence[Task], setting: Setting, samples: int, title: str
    ) -> list[list[Rollout]]:
        """Rejection sampling (paper "Pair-specific adaptation"): for each task up to ``samples``
        rollouts, stopping at the first that the verifier accepts."""
        start = time.monotonic()
        with self._observer.bar(title, len(tasks)) as bar:
            taken = 0

            async def sample(task: Task) -> list[Rollout]:
                nonlocal taken
                rollouts: list[Rollout] = []
                for execution in range(samples):
                    rollouts.append(await self._one(Job(agent, task, execution), setting))
                    if rollouts[-1].verdict.accepted:
                        taken += 1
                        break
                bar.advance(note=f"{taken} accepted")
                return rollouts

            sampled = await together([sample(task) for task in tasks])
        self.cost += Cost(seconds=time.monotonic() - start)
        return sampled

    async def session(
        self,
        agent: Agent,
        instruction: str,
        world: Callable[[], HostWorld],
        setting: Setting,
        key: str,
        seed: int,
    ) -> Trajectory:
        """A rollout of no task set, in a world of the caller's own; journalled under ``key``, which
        must name all that it depends on. Raises as ``many``."""
        known = self._journal.get([key]) if self._journal is not None else {}
        if key in known:
            self.cost += Cost(cached=1)
            return known[key]
        await self._start_sessions()

        async def work() -> Trajectory:
            model = self._server.model(agent.folder, agent.weights)
            rules = setting.limits, setting.sampling, seed
            return await self._sessions.run(agent.files, instruction, model, world(), *rules)

        [trajectory] = await together([self._kept(key, work, None)])
        return trajectory

    async def _one(self, job: Job, setting: Setting) -> Rollout:
        key = self._key(job, setting)
        known = self._journal.get([key]) if self._journal is not None else {}
        if key in known:
            self.cost += Cost(cached=1)
            return await self._rollout(job.task, known[key])
        await self._start()
        return await self._rollout(job.task, await self._fresh(job, key, setting, None))

    async def _fresh(self, job: Job, key: str, setting: Setting, bar: Bar | None) -> Trajectory:
        seed = rollout_seed(self._run_seed, job.task, job.execution)

        async def work() -> Trajectory:
            agent, rules = job.agent, (setting.limits, setting.sampling, seed)
            model = self._server.model(agent.folder, agent.weights)
            return await self._executor.run(agent.files, model, job.task, *rules)

        return await self._kept(key, work, bar)

    async def _kept(
        self, key: str, work: Callable[[], Awaitable[Trajectory]], bar: Bar | None
    ) -> Trajectory:
        """The rollout, within the bound, counted and on disk."""
        async with self._gate:
            trajectory = await _again(work)
        if self._journal is not None:
            self._journal.put(key, trajectory)
        self.cost += Cost(
            rollouts=1,
            prompt_tokens=trajectory.prompt_tokens,
            completion_tokens=trajectory.completion_tokens,
        )
        if bar:
            bar.advance()
        return trajectory

    def _key(self, job: Job, setting: Setting) -> str:
        seed = rollout_seed(self._run_seed, job.task, job.execution)
        return rollout_key(
            setting, job.agent.code_id, job.agent.weights, job.task, job.execution, seed
        )

    def keys(self, jobs: Sequence[Job], setting: Setting) -> list[str]:
        """The journal keys of ``jobs``."""
        return [self._key(job, setting) for job in jobs]

    async def _rollout(self, task: Task, trajectory: Trajectory) -> Rollout:
        """Verified in a thread: a verifier may run what the model wrote, and rollouts go on."""
        verdict = await asyncio.to_thread(self._domain.verify, task, trajectory.answer)
        verdict = replace(verdict, counts={**verdict.counts, "turns": float(trajectory.turns)})
        return Rollout(opaque_id(self._secret, task), task, trajectory, verdict)

    async def _start(self) -> None:
        """Once, at the first rollout that has to be run; others wait until it is done."""
        async with self._starting:
            if not self._started:
                await self._start_now()

    async def _start_sessions(self) -> None:
        """Sessions are in worlds of this machine, whatever the executor."""
        await self._start()
        async with self._starting:
            if not self._for_sessions:
                await self._sessions.__aenter__()
                self._for_sessions = True

    async def _start_now(self) -> None:
        self._observer.say(f"  starting the {self._server.name} server")
        try:
            await self._server.start(paced(self._observer.say))
            self._started = True
            await self._executor.start()
        except SandboxUnavailable as error:
            await self._server.stop()
            self._started = False
            raise SandboxError(
                f"no sandbox works here ({error}); install bubblewrap, or set `sandbox: none` in "
                "params.yaml to run evolved code unconfined"
            ) from None


async def _again(work: Callable[[], Awaitable[Trajectory]]) -> Trajectory:
    """One rollout. One whose worker was lost from outside is no fault of the harness: it is run
    again, in a fresh world."""
    lost = ""
    for _ in range(_LOST_TRIES):
        try:
            return await work()
        except WorkerLost as error:
            lost = str(error)
    raise SandboxError(f"sandboxed workers keep dying from outside ({lost}); run again")


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all; the first failure cancels the rest and is raised as the boundary's error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failures:
        raise _told(failures) from None
    return [task.result() for task in tasks]


def _told(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of several failures in the words of its boundary; the group itself for a bug."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, SandboxUnavailable):
        return SandboxError(f"the sandbox stopped working: {first}")
    if isinstance(first, ModelUnavailable):
        return ModelError(
            f"{first}; what had finished is kept: run `dvc repro` again when the endpoint answers"
        )
    return first if isinstance(first, CoevoError | OSError) else failures


def _grouped(items: Sequence[int], key: Callable[[int], str]) -> list[list[int]]:
    groups: list[list[int]] = []
    last: object = None
    for item in items:
        mark = key(item)
        if not groups or mark != last:
            groups.append([])
        groups[-1].append(item)
        last = mark
    return groups
