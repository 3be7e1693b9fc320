"""Harbor's task folders as tasks of ours: read, refused, run in the kernel's shell, graded."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from harbor_tasks import SOLVE, write_task
from session_runs import needs_sandbox
from shell_runs import shell_run

from engine.domains.registry import domain
from engine.errors import DataError
from engine.harbor.domain import DOMAIN
from engine.harbor.folder import HarborTask, read
from engine.harbor.world import HarborWorld, score

SIZES = {"train": 1, "validation": 2, "test": 1}


def settled(task: HarborTask, *commands: str) -> dict[str, Any]:
    """What grading says after these commands."""

    async def run() -> dict[str, Any]:
        world = HarborWorld(task)
        try:
            for command in commands:
                await world.exec(command)
            await world.settle()
        finally:
            await world.close()
        assert world.answer is not None
        return world.answer

    return asyncio.run(run())


def test_a_folder_is_read_whole_and_needed_no_more(tmp_path: Path) -> None:
    made = read(write_task(tmp_path, 5))
    assert made.instruction.startswith("Task 5: numbers.txt")
    assert (made.workdir, made.verifier_s, made.tags) == ("/app", 60.0, ("sums", "easy"))
    assert dict(made.verifier) == {"WANTED": "12"}
    assert HarborTask.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ('docker_image = "python:3.12"', "docker_image"),
        ('os = "windows"', "only linux"),
        ('env = { KEY = "${HOST_KEY}" }', "takes ${HOST_KEY} from the host"),
        ("\n[[steps]]\nname = 'one'", "steps"),
        ("this is no toml", "task.toml"),
    ],
)
def test_what_can_t_run_here_is_refused_by_name(tmp_path: Path, more: str, named: str) -> None:
    with pytest.raises(DataError, match=re.escape(named)):
        read(write_task(tmp_path, 5, more=more))


def test_a_folder_that_needs_an_image_or_has_no_tests_is_refused(tmp_path: Path) -> None:
    image, bare = write_task(tmp_path, 5), write_task(tmp_path, 6)
    (image / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (bare / "tests" / "test.sh").unlink()
    with pytest.raises(DataError, match="harbor run --agent"):
        read(image)
    with pytest.raises(DataError, match=r"tests/test\.sh: missing"):
        read(bare)
    assert read(write_task(tmp_path, 7))
    with pytest.raises(DataError, match="container"):
        DOMAIN.load(tmp_path, 0, SIZES)
    loaded = DOMAIN.load(tmp_path, 0, {"train": 1}, skip_bad_rows=True)
    assert len(loaded.train) == 1 and len(loaded.skipped) == 2
    with pytest.raises(DataError, match=r"1 tasks run here.* = 4"):
        DOMAIN.load(tmp_path, 0, SIZES, skip_bad_rows=True)


def test_solved_wrong_and_empty(tmp_path: Path) -> None:
    needs_sandbox()
    task = read(write_task(tmp_path, 5))
    assert settled(task, SOLVE)["score"] == 1.0
    wrong = settled(task, "echo 13 > answer.txt")
    assert wrong["score"] == 0.0 and "is not 12" in wrong["grader"]
    assert settled(task)["score"] == 0.0


def test_nothing_that_an_agent_leaves_outside_its_folder_reaches_the_tests(tmp_path: Path) -> None:
    needs_sandbox()
    task = read(write_task(tmp_path, 5))
    cheat = "mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt; ls /tests"
    daemon = "(while true; do echo 1 > /logs/verifier/reward.txt; done) >/dev/null 2>&1 &"
    assert settled(task, cheat, daemon, "echo 'exit 0' > /tests/test.sh")["score"] == 0.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1\n", 1.0),
        ("0.25", 0.25),
        ('{"reward": 0.5, "speed": 1}', 0.5),
        ('{"a": 1, "b": 0}', 0.5),
        ("7", 1.0),
        ("-1", 0.0),
        ("", 0.0),
        ("nan", 0.0),
        ("{}", 0.0),
        ('"1"', 0.0),
    ],
)
def test_rewards(text: str, value: float) -> None:
    assert score(text) == value


def test_a_run_on_task_folders(tmp_path: Path) -> None:
    """Round 0: the seed harness, with a model that knows how to add."""
    needs_sandbox()
    data = tmp_path / "tasks"
    for number in (5, 6, 7, 8):
        write_task(data, number, category="sums" if number % 2 else "more")
    assert domain("harbor") is DOMAIN
    run = shell_run(
        tmp_path,
        domain="harbor",
        data=str(data),
        splits=SIZES,
        serving={"backend": "harbor_solver:AddingServer", "concurrency": 2},
    )
    run.ok("coevo", "stage", "open")
    facts = json.loads(run.ok("coevo", "show", "evo/pair/r000-seed", "--json"))
    assert facts["score"] == 1.0 and facts["tasks"] == 2
