"""Mend a command whose names are a slip away from a method that the home has."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from mechanisms import commands, rooms

CUTOFF = 0.8


async def call(agent: Any, call: Any, world: Any) -> Any:
    if not commands.is_answer(agent, call):
        return call
    mended = []
    for command in commands.parse(call.arguments["commands"]):
        mended.append(await mend(agent, command, world))
    arguments = {**call.arguments, "commands": commands.render(mended)}
    return dataclasses.replace(call, arguments=arguments)


async def mend(agent: Any, command: str, world: Any) -> str:
    path = commands.path(command)
    home = agent.home.get("home", {})
    near = difflib.get_close_matches(path.split(".")[0], home, 1, CUTOFF)
    room = rooms.of(agent, path) or next(iter(near), None)
    if command == commands.INFEASIBLE or room is None:
        return command
    listing = await rooms.look_up(agent, world, "list_methods", room)
    methods = commands.signatures(listing)
    same_device = [each for each in methods if commands.device(each) == commands.device(path)]
    near = difflib.get_close_matches(path, same_device or methods, 1, CUTOFF)
    return command.replace(path, near[0], 1) if near and path not in methods else command
