"""Submit commands in the canonical form whatever small liberties the model took."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from mechanisms import commands


async def call(agent: Any, call: Any, world: Any) -> Any:
    if not commands.is_answer(agent, call):
        return call
    tidy = [normalise(each) for each in commands.parse(call.arguments["commands"])]
    text = commands.render([each for each in tidy if each])
    return dataclasses.replace(call, arguments={**call.arguments, "commands": text})


def normalise(command: str) -> str:
    """Spaces in names to underscores, no quotes, no units, no parameter names, parentheses."""
    if re.search(r"error.?input", command, re.IGNORECASE):
        return commands.INFEASIBLE
    command = command.strip(" .;`\"'")
    path = re.sub(r"\s+", "_", commands.path(command)).lower()
    values = []
    for value in commands.arguments(command):
        bare = value.rpartition("=")[2].strip(" \"'")
        values.append(re.sub(r"(?<=\d)\s*(%|percent|degrees?|°.?|minutes?)$", "", bare))
    return f"{path}({','.join(values)})" if path.count(".") in (1, 2) else command
