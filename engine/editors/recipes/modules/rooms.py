"""Which rooms an instruction names, and what the world says of them (each asked once)."""

from __future__ import annotations

import difflib
import re
from typing import Any

LIKENESS = 0.85
ROOMLESS = ("house", "home", "none")


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower().replace("_", " "))


def mentioned(name: str, text: str) -> bool:
    """Whether ``text`` says ``name``, give or take a letter or a plural."""
    wanted, said = words(name), words(text)
    spoken = " ".join(wanted)
    for start in range(len(said) - len(wanted) + 1):
        window = " ".join(said[start : start + len(wanted)])
        if window == spoken or difflib.SequenceMatcher(None, window, spoken).ratio() > LIKENESS:
            return True
    return False


def named(agent: Any, text: str) -> list[str]:
    """The rooms that ``text`` names; what belongs to no room counts by its devices."""
    found = []
    for room, devices in agent.home.get("home", {}).items():
        roomless = room.lower() in ROOMLESS and any(mentioned(each, text) for each in devices)
        if roomless or mentioned(room, text):
            found.append(room)
    return found


def of(agent: Any, command: str) -> str | None:
    """The room whose method list a command belongs to: the one it begins with, or the one that
    holds its device where the command begins with the device."""
    home = agent.home.get("home", {})
    first = command.partition(".")[0]
    if first in home:
        return first
    return next((room for room, devices in home.items() if first in devices), None)


async def look_up(agent: Any, world: Any, tool: str, room: str) -> str:
    """What a read-only tool says of a room; asked of the world once."""
    known = agent.facts.setdefault(tool, {})
    if room not in known:
        known[room] = await world.call(tool, {"room": room})
    return str(known[room])
