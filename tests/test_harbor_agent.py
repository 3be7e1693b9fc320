"""A harness as Harbor's agent, in Harbor's own classes: needs the extra ``[harbor]``."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from harbor_tasks import SOLVE, write_task

from engine.errors import ConfigError, DataError
from engine.llm.scripted import Answer, Request, ScriptedEndpoint

pytest.importorskip("harbor", reason="Harbor needs Python 3.12: pip install 'coevo[harbor]'")

HARNESS = Path(__file__).parents[1] / "seed_harnesses" / "general"


def adds(request: Request) -> Answer:
    return Answer("done") if request.results else Answer("", [("bash", {"command": SOLVE})])


def environment(task: Path, logs: Path) -> Any:
    from harbor.models.task.task import Task
    from harbor.models.trial.paths import TrialPaths

    from engine.harbor.environment import ShellEnvironment

    return ShellEnvironment(
        environment_dir=task / "environment",
        environment_name=task.name,
        session_id="session",
        trial_paths=TrialPaths(logs),
        task_env_config=Task(task).config.environment,
    )


def agent(logs: Path, url: str, **options: Any) -> Any:
    from engine.harbor.agent import CoevoAgent

    given = {"harness": str(HARNESS), "endpoint": url, **options}
    return CoevoAgent(logs, "scripted", **given)


def test_a_harness_solves_a_task_in_harbor_s_environment(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on PATH")
    from harbor.models.agent.context import AgentContext

    task, context = write_task(tmp_path / "tasks", 5), AgentContext()

    async def trial(url: str) -> tuple[str, str]:
        world, own = environment(task, tmp_path / "trial"), agent(tmp_path / "logs", url)
        await world.start(False)
        try:
            await own.setup(world)
            await own.run("Task 5: add the numbers.", world, context)
            await world.upload_dir(task / "tests", "/tests")
            await world.exec("bash /tests/test.sh", env={"WANTED": "12"})
            await world.download_dir("/logs/verifier", tmp_path / "verifier")
            await world.download_file("/app/answer.txt", tmp_path / "answer.txt")
            listed = await world.exec("ls; exit 3", cwd="/tests")
            assert (listed.stdout, listed.return_code) == ("test.sh\n", 3)
        finally:
            await world.stop(True)
        return (tmp_path / "verifier" / "reward.txt").read_text(), (
            tmp_path / "answer.txt"
        ).read_text()

    with ScriptedEndpoint(adds, key="none", models=["scripted"]) as server:
        assert asyncio.run(trial(server.url)) == ("1\n", "12\n")
    assert context.metadata is not None
    assert (context.metadata["end"], context.metadata["turns"]) == ("answered", 2)
    record = json.loads((tmp_path / "logs" / "coevo-trajectory.json").read_text())
    assert [e["command"] for e in record["events"] if e["kind"] == "exec"] == [SOLVE]


def test_options_are_checked_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="harness="):
        agent(tmp_path, "http://127.0.0.1:9/v1", harness="")
    with pytest.raises(ConfigError, match="many"):
        agent(tmp_path, "http://127.0.0.1:9/v1", turns="many")
    with pytest.raises(ConfigError, match=r"no harness\.py"):
        asyncio.run(agent(tmp_path, "http://127.0.0.1:9/v1", harness=str(tmp_path)).setup(None))
    with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
        asyncio.run(agent(tmp_path, "http://x/v1", key_env="NO_SUCH_KEY").setup(None))


def test_a_task_that_needs_an_image_is_refused(tmp_path: Path) -> None:
    task = write_task(tmp_path, 5)
    (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(DataError, match="container"):
        environment(task, tmp_path / "trial")
