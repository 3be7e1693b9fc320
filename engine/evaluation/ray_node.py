"""One node's part of ``executor: ray``: a warm pool of sandboxes, in an actor of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import kernel
from engine.domains import Domain, Task
from engine.evaluation.exchange import DistantModel
from kernel.contract import Limits, ModelUnavailable, Sampling
from kernel.host import WorkerPool
from kernel.sandbox import SandboxUnavailable, WorkerLost
from kernel.trajectory import Trajectory


@dataclass(frozen=True)
class Failure:
    """Why a rollout has no trajectory, as it goes over the wire."""

    kind: str
    message: str

    def error(self) -> Exception:
        return _KINDS[self.kind](self.message)


_KINDS: dict[str, type[Exception]] = {
    "sandbox": SandboxUnavailable,
    "lost": WorkerLost,
    "model": ModelUnavailable,
}


class Node:
    """Its methods run in the actor's event loop, many at a time."""

    def __init__(self, domain: Domain, sandbox: str) -> None:
        self._domain, self._pool = domain, WorkerPool(sandbox=sandbox)

    async def start(self) -> str | Failure:
        """The digest of the kernel that runs here, once its sandbox works."""
        try:
            await self._pool.__aenter__()
        except SandboxUnavailable as error:
            return Failure("sandbox", str(error))
        return kernel.digest()

    async def run(
        self,
        files: Mapping[str, bytes],
        model: tuple[str, str],
        task: Task,
        limits: Limits,
        sampling: Sampling,
        seed: int,
    ) -> Trajectory | Failure:
        """``model`` is an address and a token."""
        world = self._domain.world(task)
        try:
            return await self._pool.run(
                files, task.instruction, DistantModel(*model), world, limits, sampling, seed
            )
        except tuple(_KINDS.values()) as error:
            kind = next(name for name, each in _KINDS.items() if isinstance(error, each))
            return Failure(kind, str(error))
