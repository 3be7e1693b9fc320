"""Show the devices of the rooms that the instruction names, not of the whole home."""

from __future__ import annotations

from typing import Any

from mechanisms import rooms


def context(agent: Any, sections: dict[str, str]) -> dict[str, str]:
    home = agent.home.get("home", {})
    named = rooms.named(agent, agent.instruction)
    index = "; ".join(f"{room}: {', '.join(home[room])}" for room in named)
    return {**sections, "home": f"(Home: {index})"} if named else sections
