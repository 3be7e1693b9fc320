"""Keep the newest observations whole and shorten older ones once the history is long."""

from __future__ import annotations

from typing import Any

KEEP = 2
LONG = 6000


def request(agent: Any, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    size = sum(len(str(message.get("content") or "")) for message in messages)
    seen = [index for index, each in enumerate(messages) if each.get("role") == "tool"]
    if size <= LONG or len(seen) <= KEEP:
        return messages
    compact = list(messages)
    for index in seen[: len(seen) - KEEP]:
        first = str(messages[index].get("content") or "").strip().partition("\n")[0]
        compact[index] = {**messages[index], "content": f"{first[:80]} [older result, shortened]"}
    return compact
