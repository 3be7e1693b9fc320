"""`executor: ray` on a small cluster of this machine: `make test-ray`."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from runs import RunRepository, wait_for

from engine.context import Context, open_context
from engine.errors import ConfigError, SandboxError
from engine.measurement import evaluate
from engine.observer import Silent
from engine.params import load
from engine.records import Outcome

ray = pytest.importorskip("ray", reason="`make test-ray` installs it")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.skipif("COEVO_RAY" not in os.environ, reason="`make test-ray` runs these"),
]
EXECUTIONS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    """Two nodes; the address in RAY_ADDRESS."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
    made.shutdown()


def measured(run: RunRepository, where: str, latency_s: float = 0.0) -> tuple[Outcome, int]:
    """The seed pair on V, and how many rollouts the journal gained."""
    run.slow(latency_s)
    params = load(run.folder / "params.yaml")
    params = params.model_copy(update={"executor": where, "executions": EXECUTIONS})
    context = open_context(run.folder, params, Silent())
    before = len(context.journal)
    outcome = asyncio.run(evaluated(context))
    gained = len(context.journal) - before
    context.journal.close()
    return replace(outcome, cost=replace(outcome.cost, seconds=0.0)), gained


async def evaluated(context: Context) -> Outcome:
    pair = context.archive.pair(context.archive.round("r000").incumbent)
    async with context.scheduler() as scheduler:
        [(outcome, rollouts)] = await evaluate(
            context, scheduler, [(pair.harness, pair.checkpoint)], "validation", "ray"
        )
        assert scheduler.cost.rollouts + scheduler.cost.cached == len(rollouts)
        return outcome


def actors() -> list[psutil.Process]:
    """The processes of the nodes' actors."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if "ray::Node" in " ".join(process.info["cmdline"] or ()):
            found.append(process)
    return found


def test_the_same_outcome_with_a_worker_killed_in_the_middle(
    opened: RunRepository, tmp_path: Path, cluster: object
) -> None:
    local, gained = measured(opened.copied(tmp_path / "local"), "local")
    assert gained == local.tasks * EXECUTIONS - local.tasks  # round 0 ran one execution
    run = opened.copied(tmp_path / "ray")
    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill_one)
        spread, also = measured(run, "ray", latency_s=0.3)
        killed.result()
    assert (spread, also) == (local, gained)
    again, nothing = measured(run, "local")
    assert (again, nothing) == (local, 0), "one journal, whoever ran the rollouts"
    wait_for(lambda: not actors())


def kill_one() -> None:
    wait_for(lambda: len(actors()) == 2, 120)
    time.sleep(1.0)
    os.kill(actors()[0].pid, signal.SIGKILL)


def test_a_node_that_leaves_is_done_without(
    opened: RunRepository, tmp_path: Path, cluster: object
) -> None:
    run = opened.copied(tmp_path / "base")
    extra = cluster.add_node(num_cpus=1)  # type: ignore[attr-defined]
    cluster.wait_for_nodes()  # type: ignore[attr-defined]

    def leave() -> None:
        wait_for(lambda: len(actors()) == 3, 120)
        cluster.remove_node(extra, allow_graceful=False)  # type: ignore[attr-defined]

    with ThreadPoolExecutor(1) as beside:
        left = beside.submit(leave)
        outcome, gained = measured(run, "ray", latency_s=0.3)
        left.result()
    assert gained == outcome.tasks * (EXECUTIONS - 1)


def test_no_cluster_is_said_before_anything_runs(
    opened: RunRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened.copied(tmp_path / "base")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(SandboxError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        measured(run, "ray")
    with pytest.raises(ConfigError, match=r"nothing is called 'rai'; did you mean 'ray'"):
        measured(run, "rai")
