"""Check every command against the home's own method list before answering.

A command for which the home has no method is answered as infeasible.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mechanisms import commands, rooms

CHECK_OPTIONS = False  # whether an argument must be one of the options that the signature lists


async def call(agent: Any, call: Any, world: Any) -> Any:
    if not commands.is_answer(agent, call):
        return call
    checked = []
    for command in commands.parse(call.arguments["commands"]):
        known = await possible(agent, command, world)
        checked.append(command if known else commands.INFEASIBLE)
    arguments = {**call.arguments, "commands": commands.render(checked)}
    return dataclasses.replace(call, arguments=arguments)


async def possible(agent: Any, command: str, world: Any) -> bool:
    path = commands.path(command)
    room = rooms.of(agent, path)
    if room is None:
        return False
    methods = commands.signatures(await rooms.look_up(agent, world, "list_methods", room))
    if path not in methods:
        return False
    listed, given = commands.options(methods[path]), commands.arguments(command)
    return not (CHECK_OPTIONS and listed and (len(given) != 1 or given[0] not in listed))
