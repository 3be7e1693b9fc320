"""Which rooms an instruction names, and what the world says of them (each asked once)."""

from __future__ import annotations

import difflib
import re
from typing import Any

LIKENESS = 0.85


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
    """The rooms that ``text`` names; rooms without a name of their own count by their devices."""
    found = []
    for room, devices in agent.home.get("home", {}).items():
        nameless = room.lower() == "none" and any(mentioned(each, text) for each in devices)
        if nameless or mentioned(room, text):
            found.append(room)
    return found


async def look_up(agent: Any, world: Any, tool: str, room: str) -> str:
    """What a read-only tool says of a room; asked of the world once."""
    known = agent.facts.setdefault(tool, {})
    if room not in known:
        known[room] = await world.call(tool, {"room": room})
    return str(known[room])
