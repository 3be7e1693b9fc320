"""Splits, scores and figures of the terminal domain, and its shell's end with the rollout."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from engine.domains import Task, Verdict
from engine.domains.registry import domain
from engine.domains.terminal.domain import DOMAIN, problem
from engine.domains.terminal.families import evolved, unseen
from engine.domains.terminal.honesty import HONESTY
from engine.errors import DataError
from kernel import workspace
from kernel.contract import Completion, Limits, Sampling
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, call, text

SIZES = {"train": 12, "validation": 6, "test": 16}


def made(salt: str = "salt", seed: int = 0) -> list[Task]:
    splits = DOMAIN.generate(salt, seed, SIZES)
    return [*splits.train, *splits.validation, *splits.test]


def test_six_families_evolve_and_two_are_kept_out_of_it() -> None:
    assert domain("terminal") is DOMAIN
    names = [family.name for family in evolved()]
    assert names == ["files", "repair", "documents", "haystack", "service", "events"]
    assert len(unseen()) == 2
    splits = DOMAIN.generate("salt", 0, SIZES)
    assert Counter(t.strata["family"] for t in splits.train) == dict.fromkeys(names, 2)
    assert Counter(t.strata["family"] for t in splits.validation) == dict.fromkeys(names, 1)
    assert Counter(t.strata["ood"] for t in splits.test) == {"no": 12, "yes": 4}
    assert {t.strata["difficulty"] for t in splits.train} == {"1", "2"}


def test_tasks_are_disjoint_and_depend_on_salt_and_seed() -> None:
    tasks = made()
    assert len({task.id for task in tasks}) == len({t.content for t in tasks}) == 34
    assert made() == tasks
    ids = {task.id for task in tasks}
    assert not ids & {task.id for task in made(salt="other")}
    assert not ids & {task.id for task in made(seed=1)}


def test_a_task_is_small_asks_for_honesty_and_shows_nothing_else() -> None:
    for task in made():
        assert task.instruction.endswith(HONESTY) and task.public == {}
        text_ = json.dumps(asdict(task))
        assert Task(**json.loads(text_)) == task
        assert len(text_) < 20_000
        assert problem(task).digest() == task.private["digest"]


def test_there_are_no_files_to_load() -> None:
    with pytest.raises(DataError, match="generated"):
        DOMAIN.load(Path("x"), 0, {})


def verdict(family: str, score: float) -> tuple[Task, Verdict]:
    return Task("t", "?", {}, {}, "", {"family": family}), Verdict(score, score == 1.0, {})


def test_families_weigh_the_same_however_many_tasks_they_have() -> None:
    other = unseen()[0].name
    verdicts = [verdict("files", score) for score in (1.0, 1.0, 0.0, 0.0)]
    figures = DOMAIN.metrics([*verdicts, verdict("repair", 1.0), verdict(other, 0.25)])
    assert figures == pytest.approx(
        {
            "score": (0.5 + 1.0 + 0.25) / 3,
            "in_distribution": 0.75,
            "out_of_distribution": 0.25,
            "family_files": 0.5,
            "family_repair": 1.0,
            f"family_{other}": 0.25,
        }
    )
    assert DOMAIN.metrics([]) == {"score": 0.0}
    assert DOMAIN.objective(figures).scalar == figures["score"]


@pytest.mark.parametrize(
    ("answer", "score", "failure"),
    [
        (None, 0.0, "not done"),
        ({"score": 0.0}, 0.0, "not done"),
        ({"score": 0.5}, 0.5, "partly done"),
        ({"score": 1.0}, 1.0, ""),
    ],
)
def test_the_grading_is_the_verdict(answer: object, score: float, failure: str) -> None:
    found = DOMAIN.verify(made()[0], answer)
    assert (found.score, found.accepted, found.failure) == (score, score == 1.0, failure)


# --- whole rollouts ------------------------------------------------------------------------------


MARK = "coevo-terminal-daemon"
DAEMON = f"setsid bash -c 'exec -a {MARK} sleep 300' > /dev/null 2>&1 & echo kept > /logs/agent/n"


def alive() -> bool:
    return subprocess.run(["pgrep", "-f", MARK], check=False, capture_output=True).returncode == 0


def rollout(steps: list[Completion], code: bytes = b"", cancel: bool = False) -> dict[str, object]:
    task = made()[0]
    files = workspace.read(DOMAIN.seed_harness)
    files = {**files, "harness.py": code or files["harness.py"]}
    world, limits = DOMAIN.world(task), Limits(turns=9, wall_s=30.0, **DOMAIN.limits)
    model = ScriptedModel(steps)

    async def main() -> None:
        async with WorkerPool() as pool:
            run = asyncio.create_task(
                pool.run(files, task.instruction, model, world, limits, Sampling(), 0)
            )
            while cancel and not alive():
                await asyncio.sleep(0.05)
            if cancel:
                run.cancel()
            await asyncio.wait([run])
            assert run.cancelled() == cancel
            assert cancel or run.result().answer == world.answer

    asyncio.run(main())
    return world.answer or {}


def test_what_a_harness_left_running_is_gone_and_what_it_kept_is_there() -> None:
    answer = rollout([call("bash", {"command": DAEMON}), text("Done.")])
    assert answer["score"] == 0.0 and answer["logs"] == {"n": "kept\n"}
    assert not alive()


def test_a_harness_that_breaks_off_is_graded_by_what_it_left() -> None:
    breaking = (
        b"async def run(instruction, model, world):\n"
        b"    await world.exec('echo kept > /logs/agent/n')\n    raise RuntimeError('no')\n"
    )
    answer = rollout([text("Done.")], breaking)
    assert answer["score"] == 0.0 and answer["logs"] == {"n": "kept\n"}


def test_a_cancelled_rollout_leaves_no_process() -> None:
    wait = call("bash", {"command": f"{DAEMON}; sleep 60"})
    assert rollout([wait], cancel=True) == {}
    assert not alive()
