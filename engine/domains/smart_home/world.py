"""The host's side of one smart-home task: two read-only tools and the final answer.

The world is made of the home alone; it never sees the reference answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.domains.smart_home.homes import Home
from kernel.contract import ExecResult, InterfaceRules, ToolSchema


def _tool(name: str, description: str, properties: dict[str, Any], *required: str) -> ToolSchema:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


_ROOM = {"room": {"type": "string", "description": "A room of the home; without it, all rooms."}}

TOOLS: tuple[ToolSchema, ...] = (
    _tool("inspect_home", "Current state of the devices in a room, as JSON.", _ROOM),
    _tool("list_methods", "Signatures of the methods in a room, one per line.", _ROOM),
    _tool(
        "final_answer",
        "Submit the machine instructions and end the task.",
        {
            "commands": {
                "type": "string",
                "description": "Commands in one pair of braces, separated by commas; "
                "error_input stands for each part that can't be done.",
            }
        },
        "commands",
    ),
)

RULES = InterfaceRules(tools=TOOLS, calls_per_turn=1, text_turns=False)


class SmartHomeWorld:
    """One rollout's world (kernel.contract.HostWorld)."""

    def __init__(self, home: Home) -> None:
        self.public: dict[str, Any] = {"home": home.index()}
        self.rules = RULES
        self._home = home
        self._answer: str | None = None

    @property
    def answer(self) -> str | None:
        """The first commands submitted."""
        return self._answer

    async def exec(self, command: str) -> ExecResult:
        """There is no shell here."""
        return ExecResult("", "this world has no shell\n", 127)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool; a bad call gives text that begins with ``error:``."""
        if name == "final_answer":
            return self._submit(arguments.get("commands"))
        if name not in ("inspect_home", "list_methods"):
            return f"error: no tool is called {name!r}; there are {', '.join(_names())}"
        asked = arguments.get("room")
        if asked is None:
            return self._whole(name)
        room = self._room(asked)
        if room is None:
            return f"error: no room is called {asked!r}; rooms: {', '.join(self._home.rooms)}"
        if name == "inspect_home":
            return _compact(self._home.status(room))
        return "\n".join(self._home.signatures(room))

    def _whole(self, name: str) -> str:
        if name == "inspect_home":
            return _compact({room: self._home.status(room) for room in self._home.rooms})
        return "\n".join(self._home.signatures())

    def _room(self, asked: Any) -> str | None:
        """A room by its key, or by its key spelled with spaces or capitals."""
        if not isinstance(asked, str):
            return None
        key = "_".join(asked.lower().split())
        return key if key in self._home.rooms else None

    def _submit(self, commands: Any) -> str:
        if not isinstance(commands, str):
            return "error: commands must be text"
        if self._answer is not None:
            return "already recorded: the first answer counts"
        self._answer = commands
        return "recorded"


def _names() -> list[str]:
    return [tool["function"]["name"] for tool in TOOLS]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
