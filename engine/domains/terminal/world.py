"""The world of one terminal task: a shell, what lives on the host, and the grading at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.domains.terminal.packing import packed, unpacked
from engine.domains.terminal.problem import Problem
from kernel.contract import ExecResult, InterfaceRules
from kernel.shell import Shell, ShellLimits, graded

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
_LOGS = 256 * 2**10


class TerminalWorld:
    """A world that lasts (``kernel.contract.LastingWorld``). Its answer is the grading: ``score``,
    ``grader`` (what it said) and ``logs`` (files that were kept under ``/logs/agent``)."""

    def __init__(self, problem: Problem, limits: ShellLimits | None = None) -> None:
        self.public: dict[str, Any] = {}
        self._problem, self._limits = problem, limits or ShellLimits()
        self._live = problem.live() if problem.live else None
        tools = (BASH, *(self._live.tools if self._live else ()))
        self.rules = InterfaceRules(tools, calls_per_turn=None, text_turns=True, wants_answer=False)
        self.answer: dict[str, Any] | None = None
        files = packed(problem.files, problem.programs)
        self._shell = Shell({"/app": files}, limits=self._limits)
        self._commands = 0

    async def exec(self, command: str) -> ExecResult:
        arrived = self._live.arrivals(self._commands) if self._live else {}
        self._commands += 1  # before anything is waited for: commands may be asked for side by side
        if arrived:
            await self._shell.put("/app", packed(arrived))
        return await self._shell.exec(command)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name == "bash":
            done = await self.exec(str(arguments["command"]))
            stderr = f"[stderr]\n{done.stderr}" if done.stderr else ""
            return "\n".join(p for p in (done.stdout, stderr, f"[exit {done.return_code}]") if p)
        assert self._live is not None  # its tools alone are beside bash
        return self._live.call(name, arguments)

    async def settle(self) -> None:
        app, logs = await self._shell.collect("/app"), await self._shell.collect("/logs/agent")
        await self._shell.close()
        facts = {**self._problem.facts, "live": dict(self._live.outcome()) if self._live else {}}
        grader = packed({"grade.py": self._problem.grader.encode()})
        score, text = await graded(app, grader, facts, self._limits)
        kept = {n: data.decode("utf-8", "replace") for n, data in unpacked(logs, _LOGS).items()}
        self.answer = {"score": score, "grader": text, "logs": kept}

    async def close(self) -> None:
        await self._shell.close()
