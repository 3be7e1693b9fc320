"""A language model by script for the roles that ask one, and what its requests held."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.llm.chat import Reply
from engine.llm.usage import Usage
from kernel.contract import Message, RawToolCall, ToolSchema

Calls = Sequence[tuple[str, Any]]
Step = str | Calls | Callable[[Sequence[Message]], Calls]
"""What it says: text, or calls (name, arguments as an object or raw text), fixed or made from the
messages."""


class ScriptedLLM:
    """Plays ``steps`` in order, the last one again and again. ``requests`` hold messages and names
    of tools, ``roles`` who asked in which session."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.requests: list[tuple[list[Message], list[str]]] = []
        self.roles: list[tuple[str, str]] = []

    async def ask(
        self,
        role: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        *,
        session: str = "",
    ) -> Reply:
        number = len(self.requests)
        names = [tool["function"]["name"] for tool in tools]
        self.requests.append((copy.deepcopy(list(messages)), names))
        self.roles.append((role, session))
        step = self._steps[min(number, len(self._steps) - 1)]
        if isinstance(step, str):
            return Reply(step, (), Usage())
        calls = step(messages) if callable(step) else step
        return Reply("", tuple(_raw(number, n, call) for n, call in enumerate(calls)), Usage())

    @property
    def text(self) -> str:
        """Everything that it was ever sent."""
        return json.dumps([messages for messages, _ in self.requests], ensure_ascii=False)

    @property
    def last(self) -> str:
        """The last message that it was sent."""
        return str(self.requests[-1][0][-1]["content"])


def _raw(request: int, number: int, call: tuple[str, Any]) -> RawToolCall:
    name, arguments = call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return RawToolCall(f"c{request}-{number}", name, text)


def kept(messages: Sequence[Message], path: Path, scratch: Path) -> None:
    """The messages are, byte for byte, those in the golden file; what they are now is left in
    ``scratch``."""
    text = "".join(f"=== {each['role']}\n{each['content']}\n" for each in messages)
    now = scratch / path.name
    now.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"{path} differs from {now}"


def told(messages: Sequence[Message]) -> list[str]:
    """What tools gave, in order."""
    return [str(message["content"]) for message in messages if message["role"] == "tool"]
