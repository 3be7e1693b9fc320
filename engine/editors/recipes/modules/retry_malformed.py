"""Tell the model what was wrong with a turn that held no valid call, and let it try again."""

from __future__ import annotations

import json
import re
from typing import Any

RETRIES = 2


def recover(agent: Any, message: dict[str, Any]) -> str | None:
    used = agent.facts.get("retries", 0)
    if used >= RETRIES:
        return None
    agent.facts["retries"] = used + 1
    names = ", ".join(tool["function"]["name"] for tool in agent.tools)
    problem = explain(str(message.get("content") or ""))
    return (
        f"That was no valid tool call: {problem}. Reply with one <tool_call> and nothing else. "
        f"Tools: {names}."
    )


def explain(text: str) -> str:
    """What a parser says of the text."""
    body = re.search(r"<tool_call>(.*?)(?:</tool_call>|$)", text, re.DOTALL)
    if body is None:
        return "there is no <tool_call> in it"
    for tag in ("parameter", "function"):
        if f"<{tag}=" in text and f"</{tag}>" not in text:
            return f"the </{tag}> is missing"
    if "</tool_call>" not in text:
        return "the </tool_call> is missing"
    if "<function=" in text:
        return "the tags are not in order"
    try:
        value = json.loads(body.group(1))
    except ValueError as error:
        return f"not JSON ({error})"
    return "name or arguments are missing" if isinstance(value, dict) else "not a JSON object"
