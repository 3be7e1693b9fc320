"""After an answer that fails the check, ask once more in a simpler form, from a clean start."""

from __future__ import annotations

from typing import Any

from mechanisms import commands, rooms

ATTEMPTS = 1
LINES = 16


async def call(agent: Any, call: Any, world: Any) -> Any:
    asked = agent.facts.setdefault("asked_again", {})
    if not commands.is_answer(agent, call) or asked.get(agent.instruction, 0) >= ATTEMPTS:
        return call
    listing = ""
    for room in rooms.named(agent, agent.instruction):
        listing += await rooms.look_up(agent, world, "list_methods", room) + "\n"
    methods = commands.signatures(listing)
    given = commands.parse(call.arguments["commands"])
    wrong = [each for each in given if commands.path(each) not in methods]
    wrong = [each for each in wrong if each != commands.INFEASIBLE]
    useful = [path for path in methods if rooms.mentioned(commands.device(path), agent.instruction)]
    if not wrong or not useful:
        return call
    asked[agent.instruction] = asked.get(agent.instruction, 0) + 1
    del agent.messages[-1:]
    lines = "\n".join(f"{path}({methods[path]})" for path in useful[:LINES])
    return (
        f"{wrong[0]} does not exist. Choose from these, or error_input if none fits:\n{lines}\n"
        f"Instruction: {agent.instruction}"
    )
