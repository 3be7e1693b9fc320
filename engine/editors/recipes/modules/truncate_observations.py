"""Cut long observations to whole lines within a limit, and say how much was left out."""

from __future__ import annotations

from typing import Any

LIMIT = 1200
HEAD_SHARE = 0.75


def observation(agent: Any, call: Any, text: str) -> str:
    if len(text) <= LIMIT:
        return text
    head = text[: int(LIMIT * HEAD_SHARE)]
    head = head.rpartition("\n")[0] or head
    tail = text[-int(LIMIT * (1 - HEAD_SHARE)) :]
    tail = tail.partition("\n")[2] or tail
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out} characters left out ...]\n{tail}"
