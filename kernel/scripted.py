"""A model that follows a script and a world that answers anything, for smoke runs and tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.contract import (
    Completion,
    ExecResult,
    InterfaceRules,
    Message,
    RawToolCall,
    Sampling,
    ToolSchema,
)

Step = Completion | Exception | Callable[[Sequence[Message], Sequence[ToolSchema]], Completion]


def text(content: str) -> Completion:
    return Completion(content, prompt_tokens=10, completion_tokens=len(content.split()))


def call(name: str, arguments: Mapping[str, Any] | str) -> Completion:
    """One tool call; ``arguments`` as text may be anything."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    calls = (RawToolCall("", name, raw),)
    return Completion("", calls, finish_reason="tool_calls", prompt_tokens=10, completion_tokens=5)


def malformed(content: str = '<tool_call>\n{"name": "oops", "argum') -> Completion:
    return Completion(content, malformed=True, prompt_tokens=10, completion_tokens=5)


class ScriptedModel:
    """Gives one step per request, and the last one again once the script is over.

    A step is a completion, an exception to raise, or a function of messages and tools.
    ``requests`` keeps what was asked.
    """

    def __init__(self, steps: Sequence[Step], latency_s: float = 0.0) -> None:
        self._steps = list(steps)
        self._latency_s = latency_s
        self.requests: list[tuple[list[Message], list[ToolSchema], Sampling, int]] = []

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        step = self._steps[min(len(self.requests), len(self._steps) - 1)]
        self.requests.append((list(messages), list(tools), sampling, seed))
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if isinstance(step, Exception):
            raise step
        return step(messages, tools) if callable(step) else step


BASH: ToolSchema = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
SHELL_RULES = InterfaceRules((BASH,), calls_per_turn=None, text_turns=True, wants_answer=False)


class ScriptedWorld:
    """Every call is observed as ``observation``; the arguments of ``final`` are the answer."""

    def __init__(
        self,
        rules: InterfaceRules = SHELL_RULES,
        public: Mapping[str, Any] | None = None,
        observation: str = "ok",
        final: str = "final_answer",
    ) -> None:
        self.rules, self.public = rules, dict(public or {})
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._observation, self._final = observation, final
        self._answer: Any | None = None

    @property
    def answer(self) -> Any | None:
        return self._answer

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        self.calls.append((name, dict(arguments)))
        if name == self._final:
            self._answer = dict(arguments)
            return "recorded"
        return self._observation

    async def exec(self, command: str) -> ExecResult:
        self.calls.append(("exec", {"command": command}))
        return ExecResult(self._observation, "", 0)
