"""A Harbor task's world over one sandboxed shell, graded by its own tests in a fresh one."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

from engine.harbor.folder import EMPTY, HarborTask
from kernel.contract import ExecResult, InterfaceRules
from kernel.shell import Shell, ShellLimits

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a bash command in the task's container; returns what it printed.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "What to run."}},
            "required": ["command"],
        },
    },
}
_SAID = 8000


class HarborWorld:
    """A world that lasts. Its answer is ``score`` (the reward, within 0 and 1), and ``grader``
    (the end of what the tests printed). Tests and rewards are where Harbor has them: ``/tests``,
    ``/logs/verifier/reward.txt`` or ``reward.json``."""

    def __init__(self, task: HarborTask) -> None:
        self.public: dict[str, Any] = {}
        self.rules = InterfaceRules((BASH,), calls_per_turn=None, text_turns=True,
                                    wants_answer=False)  # fmt: skip
        self.answer: dict[str, Any] | None = None
        self._task = task
        self._shell = Shell({task.workdir: task.files, "/logs": EMPTY})

    async def exec(self, command: str) -> ExecResult:
        return await self._shell.exec(_exported(self._task.environment) + command)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        done = await self.exec(str(arguments["command"]))
        parts = (done.stdout, done.stderr, f"[exit {done.return_code}]")
        return "\n".join(part for part in parts if part)

    async def settle(self) -> None:
        left = await self._shell.collect(self._task.workdir)
        await self._shell.close()
        task = self._task
        limits = ShellLimits(command_s=task.verifier_s, cpu_s=task.verifier_s)
        folders = {task.workdir: left or EMPTY, "/tests": task.tests, "/logs": EMPTY}
        fresh = Shell(folders, limits=limits)
        try:
            variables = _exported({**task.environment, **task.verifier})
            done = await fresh.exec(f"mkdir -p /logs/verifier; {variables}bash /tests/test.sh")
            reward = await fresh.exec(
                "cd /logs/verifier && cat reward.json 2>/dev/null || cat reward.txt 2>/dev/null"
            )
        finally:
            await fresh.close()
        said = f"{done.stdout}\n{done.stderr}".strip()[-_SAID:]
        self.answer = {"score": score(reward.stdout), "grader": said}

    async def close(self) -> None:
        await self._shell.close()


def score(text: str) -> float:
    """A reward file as a score: a number, or the mean of an object's numbers; 0 for anything else.
    Rewards outside 0 and 1 count as the nearer of the two."""
    try:
        value = json.loads(text)
    except ValueError:
        return 0.0
    if isinstance(value, Mapping):
        numbers = [v for v in value.values() if isinstance(v, int | float)]
        value = value.get("reward", sum(numbers) / len(numbers) if numbers else 0.0)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return min(max(float(value), 0.0), 1.0)


def _exported(variables: Mapping[str, str]) -> str:
    return "".join(f"export {n}={shlex.quote(v)}; " for n, v in variables.items())
