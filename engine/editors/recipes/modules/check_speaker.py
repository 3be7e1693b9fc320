"""The agent of an answer must be the one who speaks at its step."""

from __future__ import annotations

import re
from typing import Any

from kernel.contract import ToolCall

RETRIES = 1  # times the model is told before its step decides


async def call(agent: Any, call: Any, world: Any) -> Any:
    if call.name != "final_answer":
        return call
    named, step = call.arguments.get("agent"), call.arguments.get("step")
    speaker = agent.harness.steps.get(step) if isinstance(step, int) else None
    if speaker is not None and plain(named) == plain(speaker):
        return call
    told = agent.facts.get("speaker_told", 0)
    if told < RETRIES:
        agent.facts["speaker_told"] = told + 1
        return (
            f"Not submitted: {wrong(agent, named, step, speaker)}. Look again at who made the "
            "error and where, then call final_answer with an agent and a step of theirs."
        )
    if speaker is None:
        return call
    return ToolCall(call.id, call.name, {**call.arguments, "agent": speaker})


def wrong(agent: Any, named: Any, step: Any, speaker: str | None) -> str:
    """What doesn't fit, with the steps at which the named agent does speak."""
    own = [each for each, who in agent.harness.steps.items() if plain(who) == plain(named)]
    there = f"step {step} is {speaker}'s" if speaker else f"there is no step {step}"
    shown = ", ".join(map(str, own[:40])) + (", ..." if len(own) > 40 else "")
    return f"{there}; {named} speaks at {shown}" if own else f"{there}; nobody is called {named}"


def plain(name: Any) -> str:
    """A name without what stands in brackets behind it."""
    return re.sub(r"\s*\([^()]*\)\s*$", "", str(name)).strip()
