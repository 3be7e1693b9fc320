"""Near the turn limit, ask for the answer and offer nothing but the answer tool."""

from __future__ import annotations

from typing import Any

LEFT = 2
WORDING = "Few turns are left. Submit your answer now with final_answer."


def request(agent: Any, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left = agent.settings["max_turns"] - agent.turns + 1
    if left > LEFT:
        return messages
    final = [tool for tool in agent.all_tools if tool["function"]["name"] == "final_answer"]
    agent.tools = final or agent.tools
    return [*messages, {"role": "user", "content": WORDING}]
