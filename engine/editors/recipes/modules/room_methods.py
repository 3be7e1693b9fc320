"""List the methods of the rooms that the instruction names, of the devices it names first."""

from __future__ import annotations

from typing import Any

from mechanisms import commands, rooms

TITLE = "Methods:"
LINES = 24
DEVICES_ONLY = False  # leave out devices that the instruction doesn't name


async def prepare(agent: Any, world: Any) -> None:
    for room in rooms.named(agent, agent.request_text):
        await rooms.look_up(agent, world, "list_methods", room)


def context(agent: Any, sections: dict[str, str]) -> dict[str, str]:
    known = agent.facts.get("list_methods", {})
    named = [room for room in rooms.named(agent, agent.instruction) if room in known]
    lines = [line for room in named for line in known[room].splitlines()]
    first = [
        line
        for line in lines
        if rooms.mentioned(commands.device(commands.path(line)), agent.instruction)
    ]
    rest = [] if DEVICES_ONLY and first else [line for line in lines if line not in first]
    chosen = (first + rest)[:LINES]
    if not chosen:
        return sections
    notes = "\n".join(part for part in (sections.get("notes", ""), TITLE, *chosen) if part)
    return {**sections, "notes": notes}
