"""Inspect the whole log in parts before the first turn, and show the beginning of every step."""

from __future__ import annotations

import re
from typing import Any

SHOWN = 2400  # characters of all steps together
PART = 8  # steps inspected at once


async def prepare(agent: Any, world: Any) -> None:
    steps, found = list(agent.harness.steps), []
    for first in range(0, len(steps), PART):
        part = steps[first : first + PART]
        text = await world.call("inspect", {"step_ids": part})
        found += each_step(text, part)
    agent.facts["survey"] = found


def context(agent: Any, sections: dict[str, str]) -> dict[str, str]:
    found = agent.facts["survey"]
    if not found:
        return sections
    most = max(SHOWN // len(found), 24)
    lines = [" ".join(text.split()) for text in found]
    shown = [line if len(line) <= most else line[:most] + "..." for line in lines]
    digest = "\n".join(["How each step begins (inspect shows more):", *shown])
    return {**sections, "notes": "\n".join(filter(None, [sections.get("notes"), digest]))}


def each_step(text: str, steps: list[int]) -> list[str]:
    """An observation's steps, each with its id; ids stand in the order asked."""
    marks, place = [], 0
    for step in steps:
        mark = re.compile(rf"^\[{step}\] ", re.MULTILINE).search(text, place)
        if mark is not None:
            marks.append(mark.start())
            place = mark.end()
    return [text[at:end].rstrip() for at, end in zip(marks, [*marks[1:], len(text)], strict=True)]
