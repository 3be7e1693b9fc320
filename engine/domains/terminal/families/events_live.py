"""The clock of the events family: messages that come in while an agent works, answers in time.

Time is counted in ticks, one for each command and as many as asked for by ``wait``, so that the
same actions always meet the same messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel.contract import ToolSchema

LONGEST_WAIT = 10


@dataclass(frozen=True)
class Mail:
    """A message that comes in at ``tick``, as ``inbox/<name>.txt``."""

    tick: int
    name: str
    text: str


def _tool(name: str, about: str, properties: dict[str, Any]) -> ToolSchema:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = (
    _tool(
        "wait",
        "Let time pass until a message comes in, for so many ticks at most.",
        {"ticks": {"type": "integer", "minimum": 1, "maximum": LONGEST_WAIT}},
    ),
    _tool(
        "reply",
        "Answer a message. The first answer counts.",
        {
            "message": {"type": "string", "description": "Its name, such as 'm042'."},
            "text": {"type": "string", "description": "The answer."},
        },
    ),
)


class Shift:
    """``engine.domains.terminal.live.Live`` of one shift, which ends at tick ``end``."""

    tools: tuple[ToolSchema, ...] = TOOLS

    def __init__(self, mails: Sequence[Mail], end: int) -> None:
        self._mails, self._end = sorted(mails, key=lambda mail: mail.tick), end
        self._waited = 0
        self._commands = 0
        self._delivered = 0
        self._replies: dict[str, list[Any]] = {}

    @property
    def now(self) -> int:
        """The tick."""
        return self._commands + self._waited

    def arrivals(self, commands: int) -> Mapping[str, bytes]:
        self._commands = commands
        due = [mail for mail in self._mails[self._delivered :] if mail.tick <= self.now]
        self._delivered += len(due)
        self._commands += 1  # the command that is about to run
        return {f"inbox/{mail.name}.txt": mail.text.encode() for mail in due}

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name == "wait":
            return self._wait(int(arguments["ticks"]))
        return self._reply(str(arguments["message"]), str(arguments["text"]))

    def outcome(self) -> Mapping[str, Any]:
        return {"replies": self._replies, "ticks": self.now}

    def _wait(self, ticks: int) -> str:
        seen = self._arrived()
        for _ in range(ticks):
            if self.now >= self._end:
                return f"tick {self.now}: the shift is over, nothing more comes in"
            self._waited += 1
            if self._arrived() > seen:
                return f"tick {self.now}: a message came in"
        return f"tick {self.now}: nothing came in"

    def _reply(self, message: str, text: str) -> str:
        if message not in {mail.name for mail in self._mails if mail.tick <= self.now}:
            return f"there is no message {message}"
        if message in self._replies:
            return f"{message} is answered already"
        self._replies[message] = [self.now, text]
        return f"answered at tick {self.now}"

    def _arrived(self) -> int:
        return sum(mail.tick <= self.now for mail in self._mails)
