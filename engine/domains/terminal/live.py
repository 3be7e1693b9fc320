"""The part of a task's world that lives on the host while an agent works: people, services, mail.

What it knows (a customer's goal, messages that are still to come) is nowhere in the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kernel.contract import ToolSchema


class Live(Protocol):
    """Made fresh for each rollout. It goes by what the agent does, never by the clock, so that the
    same actions always meet the same world."""

    tools: tuple[ToolSchema, ...]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What one of ``tools`` gives back, for arguments that fit its schema."""
        ...

    def arrivals(self, commands: int) -> Mapping[str, bytes]:
        """Files that appear below ``/app`` before the shell's next command; ``commands`` ran."""
        ...

    def outcome(self) -> Mapping[str, Any]:
        """What the grader is told of it (JSON-able), as ``live`` in its facts."""
        ...
