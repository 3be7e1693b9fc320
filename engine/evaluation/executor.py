"""Where rollouts run: in this process's sandboxes, or on the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from engine.domains import Domain, Task
from engine.observer import Observer
from engine.seams import find
from kernel.contract import ChatModel, Limits, Sampling
from kernel.host import WorkerPool
from kernel.trajectory import Trajectory


class Executor(Protocol):
    """Runs one rollout of a task at a time for each caller; journal and verdict are theirs."""

    async def start(self) -> None:
        """Raises SandboxUnavailable where no sandbox works, SandboxError where no node does."""
        ...

    async def stop(self) -> None:
        """End every worker. May be called twice, and without a start."""
        ...

    async def run(
        self,
        files: Mapping[str, bytes],
        model: ChatModel,
        task: Task,
        limits: Limits,
        sampling: Sampling,
        seed: int,
    ) -> Trajectory:
        """Raises as ``WorkerPool.run``: WorkerLost where the rollout was ended from outside."""
        ...


EXECUTORS = {
    "local": "engine.evaluation.executor:LocalExecutor",
    "ray": "engine.evaluation.ray_executor:RayExecutor",
}


def executor(name: str, domain: Domain, sandbox: str, observer: Observer) -> Executor:
    """The executor called ``name``, or at ``module:Class``. Raises ConfigError if unknown."""
    kind: Callable[[Domain, str, Observer], Executor] = find("executor", name, EXECUTORS)
    return kind(domain, sandbox, observer)


class LocalExecutor:
    """The warm pool of this machine."""

    def __init__(self, domain: Domain, sandbox: str, observer: Observer) -> None:
        del observer
        self._domain, self._pool = domain, WorkerPool(sandbox=sandbox)

    async def start(self) -> None:
        await self._pool.__aenter__()

    async def stop(self) -> None:
        await self._pool.__aexit__(None, None, None)

    async def run(
        self,
        files: Mapping[str, bytes],
        model: ChatModel,
        task: Task,
        limits: Limits,
        sampling: Sampling,
        seed: int,
    ) -> Trajectory:
        world = self._domain.world(task)
        return await self._pool.run(files, task.instruction, model, world, limits, sampling, seed)
