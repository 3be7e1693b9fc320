"""Trajectories made by hand: requests, replies and commands, packed as the host packs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel.contract import Message
from kernel.trajectory import Event, Requests, Trajectory

SYSTEM: Message = {"role": "system", "content": "You work in a shell."}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def says(text: str, *commands: str) -> Message:
    """An assistant message with a call of ``bash`` for each command."""
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": "bash", "arguments": command}}
        for i, command in enumerate(commands)
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def tool(text: str) -> Message:
    return {"role": "tool", "tool_call_id": "c0", "content": text}


class Script:
    """``ask`` is a request with its reply, ``ran`` a command with its output."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._packer, self._turn = Requests(), 0

    def ask(self, messages: Sequence[Message], reply: Message | None, violation: str = "") -> None:
        self.events.append(self._packer.pack(self._turn, list(messages), []))
        if reply is not None:
            event = {"kind": "reply", "turn": self._turn, "message": reply, "violation": violation}
            self.events.append({**event, "prompt_tokens": 1, "completion_tokens": 1})
        self._turn += 1

    def ran(self, command: str, output: str) -> None:
        event = {"kind": "exec", "turn": self._turn, "command": command, "stdout": output}
        self.events.append({**event, "stderr": "", "return_code": 0})

    def trajectory(self, end: str = "answered", **fields: Any) -> Trajectory:
        known: dict[str, Any] = {
            "answer": None, "turns": self._turn, "violations": 0,
            "prompt_tokens": 1, "completion_tokens": 1, "wall_s": 1.0,
        }  # fmt: skip
        return Trajectory(tuple(self.events), end, **{**known, **fields})
