"""Rollouts on a Ray cluster: sandboxes on its nodes, models by address.

``RAY_ADDRESS`` names the cluster; without it Ray starts one of this machine alone. Each node gets
one actor with a warm pool. A rollout goes to the node with the fewest in flight; those that a lost
node took along run again on the others, from their beginning and with their own seeds, so that what
is lost is never in a result.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import kernel
from engine.domains import Domain, Task
from engine.errors import ConfigError, SandboxError
from engine.evaluation.exchange import Exchange
from engine.evaluation.ray_node import Failure, Node
from engine.observer import Observer
from engine.params import environment
from kernel.contract import ChatModel, Limits, Sampling
from kernel.trajectory import Trajectory

_START_S = 300.0
_CONNECT_S = 10.0
_LOSSES = 3
"""Actors that a node may lose before it is left alone."""
_AT_ONCE = 1000


@dataclass
class Seat:
    """A node's actor and how many rollouts are on it."""

    node: str
    address: str
    actor: Any
    busy: int = 0


class RayExecutor:
    """One for a stage; it needs CoEvo, at this version, on every node."""

    def __init__(self, domain: Domain, sandbox: str, observer: Observer) -> None:
        self._domain, self._sandbox, self._observer = domain, sandbox, observer
        self._exchange = Exchange()
        self._seats: list[Seat] = []
        self._lost: Counter[str] = Counter()
        self._seating = asyncio.Lock()
        self._started = False

    async def start(self) -> None:
        ray = _ray()
        cluster = environment("RAY_ADDRESS")
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        own = {"include_dashboard": False} if cluster is None else {"address": cluster}
        try:
            if cluster:
                await _answers(cluster)
            ray.init(**options, **own)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise SandboxError(
                f"no Ray cluster at {cluster or 'this machine'} ({error}); `ray start --head` "
                "makes one, RAY_ADDRESS names it; or set executor: local"
            ) from None
        self._started = True
        await self._exchange.start(ray.util.get_node_ip_address())
        await self._seat()

    async def stop(self) -> None:
        if not self._started:
            return
        self._started = False
        seats, self._seats = self._seats, []
        for seat in seats:
            _ray().kill(seat.actor)
        await self._exchange.stop()
        _ray().shutdown()

    async def run(
        self,
        files: Mapping[str, bytes],
        model: ChatModel,
        task: Task,
        limits: Limits,
        sampling: Sampling,
        seed: int,
    ) -> Trajectory:
        from ray.exceptions import RayError, RayTaskError

        while True:
            seat = await self._free()
            seat.busy += 1
            try:
                with self._exchange.offered(model) as token:
                    address = (self._exchange.url, token)
                    done: Trajectory | Failure = await seat.actor.run.remote(
                        dict(files), address, task, limits, sampling, seed
                    )
            except RayTaskError:
                raise  # a bug of ours or the domain's
            except RayError as error:
                await self._lose(seat, error)
                continue
            finally:
                seat.busy -= 1
            if isinstance(done, Failure):
                raise done.error()
            return done

    async def _free(self) -> Seat:
        """The node with the fewest rollouts. Raises SandboxError where none is left."""
        if not self._seats:
            async with self._seating:  # one may be on its way
                if not self._seats:
                    raise SandboxError(
                        "no node of the Ray cluster is left; run again when one is back"
                    )
        return min(self._seats, key=lambda each: each.busy)

    async def _lose(self, seat: Seat, error: Exception) -> None:
        """Told by each rollout that was on it; the first one has the node seated anew, if it is
        there and doesn't keep losing its actor."""
        async with self._seating:
            if seat not in self._seats:
                return
            self._seats.remove(seat)
            self._lost[seat.node] += 1
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            self._observer.say(f"  node {seat.address} was lost ({why}); its rollouts run again")
            await self._seat()

    async def _seat(self) -> None:
        """An actor on each node that is alive and has none. Raises SandboxError where the sandbox
        doesn't work on a node, and ConfigError where a node has another kernel."""
        from ray.exceptions import RayError, RayTaskError

        taken = {seat.node for seat in self._seats}
        for node in _ray().nodes():
            name, address = node["NodeID"], node["NodeManagerAddress"]
            if not node["Alive"] or name in taken or self._lost[name] >= _LOSSES:
                continue
            actor = _actor(name, self._domain, self._sandbox)
            try:
                found = await asyncio.wait_for(actor.start.remote(), _START_S)
            except RayTaskError:
                raise
            except (RayError, TimeoutError) as error:
                self._lost[name] += 1
                self._observer.say(f"  node {address} takes no rollouts ({error})")
                continue
            if isinstance(found, Failure):
                raise SandboxError(f"node {address}: {found.message}")
            if found != kernel.digest():
                raise ConfigError(
                    f"node {address} has another CoEvo (kernel {found[:12]}, here "
                    f"{kernel.digest()[:12]}); install the same version on every node"
                )
            self._seats.append(Seat(name, address, actor))


async def _answers(cluster: str) -> None:
    """Raises ConnectionError where nothing listens: Ray itself would try for many minutes."""
    host, _, port = cluster.rpartition("//")[2].rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto" and the like, which Ray looks up
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), _CONNECT_S)
    except (OSError, TimeoutError, OverflowError) as error:
        raise ConnectionError(str(error) or "it doesn't answer") from None
    writer.close()


def _actor(node: str, domain: Domain, sandbox: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    kind = _ray().remote(Node)
    options = {"num_cpus": 0, "max_concurrency": _AT_ONCE, "scheduling_strategy": there}
    return kind.options(**options).remote(domain, sandbox)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError(
            "params.yaml: executor: ray: Ray isn't installed; `pip install 'coevo[ray]'`"
        ) from None
    return ray
