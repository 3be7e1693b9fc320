"""A toy of terminal tasks for tests: a shell of three commands, families of sums, and a model that
on every fifth task looks at the grader first. Loaded by params (``shell_domain:DOMAIN``)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripted import ScriptedServer

from engine.domains import Objective, Task, Verdict
from engine.domains.split import TaskSplits, interleave
from kernel.contract import Completion, ExecResult, InterfaceRules, RawToolCall, Sampling

FAMILIES = {"sums": False, "products": False, "differences": True}
SIGNS = {"sums": "+", "products": "*", "differences": "-"}
GRADER = "/grader/answer.txt"
BIG = 6000


def bash(command: str, id_: str = "c0") -> RawToolCall:
    return RawToolCall(id_, "bash", json.dumps({"command": command}))


class ShellWorld:
    """``echo X > answer.txt``, ``cat PATH`` and ``seq`` (which prints a lot); a tool ``note``."""

    def __init__(self, gold: str, family: str) -> None:
        self.public: dict[str, Any] = {"family": family}
        text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        parameters: dict[str, Any] = {"bash": {}, "note": text}
        tools = tuple(
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in parameters.items()
        )
        self.rules = InterfaceRules(
            tools=tools, calls_per_turn=None, text_turns=True, wants_answer=False
        )
        self._gold, self._written = gold, ""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        return f"noted: {arguments['text']}" if name == "note" else f"error: no tool {name}"

    async def exec(self, command: str) -> ExecResult:
        if found := re.fullmatch(r"echo (\S+) > answer\.txt", command):
            self._written = found[1]
            return ExecResult("", "", 0)
        if command == f"cat {GRADER}":
            return ExecResult(self._gold + "\n", "", 0)
        if command == "seq":
            return ExecResult("".join(f"{n}\n" for n in range(BIG)), "", 0)
        return ExecResult("", f"{command.split()[0]}: not found", 127)

    @property
    def answer(self) -> Any | None:
        return {"written": self._written} if self._written else None


class ShellDomain:
    name = "shell"
    turn_limit = 12
    entry_points: Mapping[str, tuple[str, ...]] = {"run": ("instruction", "model", "world")}
    seed_harness = Path(__file__).parents[1] / "seed_harnesses" / "general"
    direction = "Solve tasks in a shell."

    def load(self, data: Path, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        raise AssertionError("these tasks are generated")

    def generate(self, salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
        numbers = random.Random(f"{salt}{seed}").sample(range(10, 9000), 3 * sum(sizes.values()))
        made: dict[str, list[Task]] = {}
        for split, size in sizes.items():
            families = [f for f, ood in FAMILIES.items() if split == "test" or not ood]
            groups = {f: [_task(split, f, numbers.pop()) for _ in range(size)] for f in families}
            made[split] = interleave(groups)[:size]
        return TaskSplits(**made)

    def world(self, task: Task) -> ShellWorld:
        return ShellWorld(task.private["gold"], task.public["family"])

    def practice(self, task: Task, instruction: str) -> Task:
        return Task("practice", instruction, task.public, {"gold": ""}, instruction, {})

    def verify(self, task: Task, answer: Any | None) -> Verdict:
        right = bool(answer) and answer.get("written") == task.private["gold"]
        return Verdict(float(right), right, {}, "" if right else "wrong")

    def metrics(self, verdicts: Sequence[tuple[Task, Verdict]]) -> dict[str, float]:
        scores = [verdict.score for _, verdict in verdicts]
        return {"score": sum(scores) / max(len(scores), 1)}

    def objective(self, metrics: Mapping[str, float]) -> Objective:
        return Objective(metrics["score"], {})


def _task(split: str, family: str, number: int) -> Task:
    gold = str(eval(f"{number} {SIGNS[family]} 3"))
    said = f"Write the result of {number} {SIGNS[family]} 3 to answer.txt."
    ood = "yes" if FAMILIES[family] else "no"
    strata = {"family": family, "ood": ood}
    return Task(
        f"{split}-{family}-{number}", said, {"family": family}, {"gold": gold}, said, strata
    )


DOMAIN = ShellDomain()


class ShellServer(ScriptedServer):
    """Right on all sums and products, wrong on every third difference."""

    fingerprint = "shell"

    def model(self, folder: Path, digest: str) -> ShellChat:  # type: ignore[override]
        return ShellChat()


def looks(number: int) -> bool:
    """Whether the model looks at the grader on this task."""
    return number % 5 == 0


def wrong(number: int, sign: str) -> bool:
    return sign == "-" and number % 3 == 0 and not looks(number)


class ShellChat:
    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        text = " ".join(str(m["content"]) for m in messages if m["role"] == "user")
        found = re.search(r"result of (\d+) ([+*-]) 3", text)
        if found is None:
            return Completion("There is nothing to do.", completion_tokens=2)
        number, sign = int(found[1]), found[2]
        done = sum(m["role"] == "tool" for m in messages)
        if looks(number) and done == 0:
            return self._call(f"cat {GRADER}")
        if done > looks(number):
            return Completion("It is written.", prompt_tokens=9, completion_tokens=2)
        gold = 0 if wrong(number, sign) else eval(f"{number} {sign} 3")
        return self._call(f"echo {gold} > answer.txt")

    def _call(self, command: str) -> Completion:
        return Completion("", (bash(command),), prompt_tokens=9, completion_tokens=3)
