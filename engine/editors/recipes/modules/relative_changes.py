"""Ground relative changes and extremes: what the value is now, and what the change makes of it."""

from __future__ import annotations

import json
import re
from typing import Any

from mechanisms import commands, rooms

UP = r"\b(increase|raise|turn up|up|brighten|higher|more)\b"
DOWN = r"\b(decrease|lower|reduce|turn down|down|dim|less)\b"
LEVELS = ["low", "medium", "high"]


async def prepare(agent: Any, world: Any) -> None:
    if re.search(rf"\bby\b|maximum|minimum|{UP}|{DOWN}", agent.request_text.lower()):
        for room in rooms.named(agent, agent.request_text):
            for tool in ("inspect_home", "list_methods"):
                await rooms.look_up(agent, world, tool, room)


def context(agent: Any, sections: dict[str, str]) -> dict[str, str]:
    lines = [line for part in parts(agent.instruction) for line in grounded(agent, part)]
    if not lines:
        return sections
    notes = "\n".join(part for part in (sections.get("notes", ""), *lines) if part)
    return {**sections, "notes": notes}


def parts(text: str) -> list[str]:
    return re.split(r",? and |, ", text)


def grounded(agent: Any, text: str) -> list[str]:
    """One line for each attribute that ``text`` changes in a way only the state can settle."""
    lines = []
    for room in rooms.named(agent, text):
        try:
            devices = json.loads(agent.facts.get("inspect_home", {}).get(room, "{}"))
        except ValueError:
            continue
        listing = commands.signatures(agent.facts.get("list_methods", {}).get(room, ""))
        for device, state in devices.items():
            if not rooms.mentioned(device, text) or not isinstance(state, dict):
                continue
            for name, value in state.items():
                bounds = bounds_of(
                    listing.get(f"{room}.{device}.set_{name}")
                    or listing.get(f"{device}.set_{name}", "")
                )
                new = changed(text.lower(), value, bounds)
                if new is not None and (rooms.mentioned(name, text) or len(state) == 2):
                    lines.append(f"{room}.{device} {name} is {value} now, will be {new}")
    return lines


def bounds_of(parameters: str) -> tuple[int, int] | None:
    found = re.search(r"(-?\d+)\.\.(-?\d+)", parameters)
    return (int(found.group(1)), int(found.group(2))) if found else None


def changed(text: str, value: Any, bounds: tuple[int, int] | None) -> Any:
    """The value after the change that ``text`` asks for; None where it asks for none."""
    if bounds and re.search(r"\bmax(imum)?\b|\bmin(imum)?\b", text):
        return bounds[1] if re.search(r"\bmax(imum)?\b", text) else bounds[0]
    step = re.search(r"\bby (\d+)", text)
    up, down = re.search(UP, text), re.search(DOWN, text)
    if step is None or not (up or down):
        return None
    amount = int(step.group(1)) if up and not down else -int(step.group(1))
    if value in LEVELS:
        return LEVELS[min(max(LEVELS.index(value) + amount, 0), len(LEVELS) - 1)]
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    low, high = bounds or (value + amount, value + amount)
    return min(max(value + amount, low), high)
