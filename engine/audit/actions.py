"""What a trajectory did, step by step: commands and tool calls with what came back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from kernel.trajectory import Trajectory


@dataclass(frozen=True)
class Action:
    """One command or tool call. ``turn`` counts the requests made before it; ``shell`` says
    whether ``text`` is a shell command, else it is the tool's name and its JSON arguments."""

    turn: int
    text: str
    output: str
    shell: bool


def actions(trajectory: Trajectory) -> Iterator[Action]:
    """The actions in their order."""
    for event in trajectory.events:
        if event["kind"] == "exec":
            output = f"{event['stdout']}\n{event['stderr']}"
            yield Action(event["turn"], event["command"], output, True)
        elif event["kind"] == "call":
            arguments = json.dumps(event["arguments"], ensure_ascii=False)
            text = f"{event['name']} {arguments}"
            yield Action(event["turn"], text, str(event["observation"]), False)
