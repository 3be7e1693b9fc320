"""The one seed harness that runs unchanged in every domain's world."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from engine.checks import kept_entry_points
from engine.domains import Domain, Task
from engine.domains.registry import domain
from engine.domains.terminal.domain import DOMAIN as TERMINAL
from engine.domains.terminal.domain import problem
from kernel import workspace
from kernel.contract import Completion, ContextLengthExceeded, Limits, Sampling
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, call, text
from kernel.trajectory import Trajectory

HARNESS = workspace.read(TERMINAL.seed_harness)
DOMAINS = ("smart_home", "attribution", "rbac_sql", "terminal")
TRUNCATED = HARNESS["harness.py"].replace(
    b'return "\\n".join(part for part in parts if part)',
    b'return "\\n".join(part for part in parts if part)[-4000:]',
)


def tasks(name: str) -> tuple[Domain, Task]:
    found = domain(name)
    return found, found.generate("salt", 0, {"train": 2, "validation": 0, "test": 0}).train[0]


def reference(name: str, task: Task) -> list[Completion]:
    """Calls that solve a task, by what only the host knows."""
    private = task.private
    if name == "terminal":
        return [call("bash", {"command": problem(task).solution})]
    if name == "smart_home":
        commands = "{" + private["gold"].strip("' ") + "}"
        return [call("inspect_home", {}), call("final_answer", {"commands": commands})]
    if name == "attribution":
        answer = {"agent": private["mistake_agent"], "step": int(private["mistake_step"])}
        return [call("inspect", {"step_ids": [0]}), call("final_answer", answer)]
    granted = private["permission"] == "allowed"
    answer = {"access_granted": granted} | ({"sql": private["gold_sql"]} if granted else {})
    return [call("test_sql", {"sql": "SELECT 1"}), call("final_answer", answer)]


def rolled(
    task: Task, found: Domain, steps: Sequence[Any], code: bytes = HARNESS["harness.py"]
) -> tuple[Trajectory, ScriptedModel]:
    own: Mapping[str, int] = getattr(found, "limits", {})
    limits, model = Limits(**{"turns": 20, "wall_s": 120.0, **own}), ScriptedModel(list(steps))

    async def main() -> Trajectory:
        async with WorkerPool() as pool:
            files = {**HARNESS, "harness.py": code}
            world = found.world(task)
            return await pool.run(files, task.instruction, model, world, limits, Sampling(), 0)

    return asyncio.run(main()), model


@pytest.mark.parametrize("name", DOMAINS)
def test_it_solves_a_task_of_each_domain(name: str) -> None:
    found, task = tasks(name)
    run, model = rolled(task, found, [*reference(name, task), text("It is done.")])
    assert (run.end, run.error) == ("answered", "")
    assert found.verify(task, run.answer).score == 1.0
    messages, tools, *_ = model.requests[0]
    assert tools == list(found.world(task).rules.tools)
    assert task.instruction in messages[1]["content"]
    shown = found.world(task).public
    assert not shown or json.dumps(shown) in messages[1]["content"]


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_s_contract_is_not_asked_of_it(name: str) -> None:
    assert kept_entry_points(domain(name), HARNESS) == {}


# --- a context that isn't endless -----------------------------------------------------------------


def limited(step: Completion, characters: int = 100_000) -> Any:
    """A step of a model that takes so many characters."""

    def answer(messages: Sequence[Mapping[str, Any]], tools: Any) -> Completion:
        size = sum(len(str(message["content"])) for message in messages)
        if size > characters:
            raise ContextLengthExceeded(f"{size} characters; {characters} fit")
        return step

    return answer


def flooded(code: bytes) -> tuple[Trajectory, float]:
    """A task that is solved after a command that prints 16 MB."""
    task = TERMINAL.generate("salt", 1, {"train": 1, "validation": 0, "test": 0}).train[0]
    flood = call("bash", {"command": "head -c 16000000 /dev/zero | tr '\\0' x"})
    steps = [flood, call("bash", {"command": problem(task).solution}), text("Done.")]
    run, _ = rolled(task, TERMINAL, [limited(step) for step in steps], code)
    return run, TERMINAL.verify(task, run.answer).score


def test_without_truncation_one_long_output_ends_the_episode() -> None:
    run, score = flooded(HARNESS["harness.py"])
    assert (run.end, run.turns, score) == ("context_overflow", 1, 0.0)
    assert "100000 fit" in run.error
    [done] = [event for event in run.events if event["kind"] == "exec"]
    assert len(done["stdout"]) < 2**20, "the record leaves out the middle"


def test_with_truncation_the_same_task_passes() -> None:
    assert HARNESS["harness.py"] != TRUNCATED
    run, score = flooded(TRUNCATED)
    assert (run.end, run.turns, score) == ("answered", 3, 1.0)
