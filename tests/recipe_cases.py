"""What the tests of editors, Curator and checks share: seed workspace, tiny home, rollouts."""

from __future__ import annotations

import ast
import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from smart_home_data import home

from engine.domains import Task, Verdict
from engine.domains.smart_home import DOMAIN
from engine.domains.smart_home.scoring import Counts
from engine.editors.recipes import apply as recipe
from engine.editors.recipes import source
from engine.records import Rollout
from engine.workspace import read_workspace
from kernel.contract import Completion, Limits, Message, Sampling
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, Step, call
from kernel.trajectory import Trajectory

SEED: Mapping[str, bytes] = read_workspace(DOMAIN.seed_harness)


def task(instruction: str = "Turn on the light in the dining room.", gold: str = "") -> Task:
    """A task in the tiny home."""
    private = {"gold": gold, "type": "VS", "home": home()}
    return Task("tiny", instruction, {}, private, content=instruction, strata={"operations": "1"})


def with_recipes(*names: str, **constants: Any) -> dict[str, bytes]:
    """The seed with recipes applied in this order, and constants of their modules set."""
    files = dict(SEED)
    for name in names:
        applied = recipe.apply(files, name, random.Random(0))
        assert applied is not None, name
        files = applied.files
        for key, value in constants.items():
            path = source.module_path(name)
            if path in files and f"\n{key} = ".encode() in files[path]:
                files[path] = source.set_constant(files[path], key, value)
    return files


def answer(commands: str) -> Completion:
    return call("final_answer", {"commands": commands})


class Played:
    """A rollout and the requests that its model saw."""

    def __init__(self, trajectory: Trajectory, model: ScriptedModel) -> None:
        self.trajectory = trajectory
        self.requests: list[list[Message]] = [request[0] for request in model.requests]
        self.tools = [[tool["function"]["name"] for tool in each[1]] for each in model.requests]

    @property
    def answer(self) -> Any:
        return self.trajectory.answer

    def shown(self, request: int = -1) -> str:
        """The last message of a request."""
        return str(self.requests[request][-1]["content"])


def play(
    files: Mapping[str, bytes],
    steps: Sequence[Step],
    instruction: str = "Turn on the light in the dining room.",
    turns: int = 6,
) -> Played:
    """One rollout of a workspace in the tiny home, in the real sandbox."""

    async def main() -> Played:
        model = ScriptedModel(steps)
        limits = Limits(turns=turns, wall_s=20.0, cpu_s=10)
        async with WorkerPool() as pool:
            world = DOMAIN.world(task(instruction))
            trajectory = await pool.run(
                files, instruction, model, world, limits, Sampling(), seed=1
            )
        return Played(trajectory, model)

    return asyncio.run(main())


def by_instruction(answers: Mapping[str, str]) -> Callable[..., Completion]:
    """A model that answers by what the last instruction says."""

    def step(messages: Sequence[Message], tools: Sequence[Any]) -> Completion:
        said = str(messages[-1]["content"]).rpartition("Instruction: ")[2]
        return answer(answers[said])

    return step


def parses(files: Mapping[str, bytes]) -> bool:
    for name, content in files.items():
        if name.endswith(".py"):
            ast.parse(content)
    return True


def rollout(
    name: str,
    failure: str = "",
    end: str = "answered",
    operations: str = "1",
    flags: Sequence[str] = ("",),
    looked: int = 0,
) -> Rollout:
    """A rollout as its record says: how it ended, each turn's violation, look-ups, verdict."""
    events: list[dict[str, Any]] = [
        {"kind": "reply", "turn": turn, "violation": flag} for turn, flag in enumerate(flags)
    ]
    calls = ["inspect_home"] * looked + ["final_answer"] * (end == "answered")
    events += [{"kind": "call", "turn": len(flags), "name": each} for each in calls]
    right = end == "answered" and not failure
    trajectory = Trajectory(
        events=tuple(events),
        end=end,
        answer="{}" if end == "answered" else None,
        turns=len(flags),
        violations=sum(map(bool, flags)),
        prompt_tokens=100 * len(flags),
        completion_tokens=10,
        wall_s=1.0,
    )
    counts = Counts(n=1, success=int(right)).as_dict()
    made = replace(task(), strata={"operations": operations})
    return Rollout(name, made, trajectory, Verdict(float(right), right, counts, failure))
