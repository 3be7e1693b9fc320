"""Show the present state of the devices that the instruction names."""

from __future__ import annotations

import json
from typing import Any

from mechanisms import rooms

TITLE = "State:"


async def prepare(agent: Any, world: Any) -> None:
    for room in rooms.named(agent, agent.request_text):
        await rooms.look_up(agent, world, "inspect_home", room)


def context(agent: Any, sections: dict[str, str]) -> dict[str, str]:
    known = agent.facts.get("inspect_home", {})
    lines = []
    for room in rooms.named(agent, agent.instruction):
        try:
            devices = json.loads(known.get(room, "{}"))
        except ValueError:
            continue
        for device, state in devices.items():
            if rooms.mentioned(device, agent.instruction) and isinstance(state, dict):
                values = ", ".join(f"{key} {value}" for key, value in state.items())
                lines.append(f"{room}.{device}: {values}")
    if not lines:
        return sections
    notes = "\n".join(part for part in (sections.get("notes", ""), TITLE, *lines) if part)
    return {**sections, "notes": notes}
