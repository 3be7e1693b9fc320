"""Cut long observations to whole lines within a limit, and say how much was left out."""

from __future__ import annotations

from typing import Any

LIMIT = 1200
HEAD_SHARE = 0.75


def observation(agent: Any, call: Any, text: str) -> str:
    if len(text) <= LIMIT:
        return text
    room = int(LIMIT * HEAD_SHARE)
    head = text[:room].rpartition("\n")[0] or text[:room]
    tail = text[len(text) - (LIMIT - room) :].partition("\n")[2]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out} characters left out ...]\n{tail}"
