"""Before an answer is submitted, show the steps up to it that nobody has inspected."""

from __future__ import annotations

from typing import Any

ROUNDS = 1
PART = 6  # steps shown in a round, the nearest to the answer
SHOWN = 2400


async def call(agent: Any, call: Any, world: Any) -> Any:
    seen = agent.facts.setdefault("inspected", set())
    if call.name == "inspect":
        asked = call.arguments.get("step_ids")
        seen.update(
            each for each in agent.harness.steps if isinstance(asked, list) and each in asked
        )
        return call
    step, rounds = call.arguments.get("step"), agent.facts.get("unseen", 0)
    if call.name != "final_answer" or not isinstance(step, int) or rounds >= ROUNDS:
        return call
    unseen = [each for each in agent.harness.steps if each <= step and each not in seen][-PART:]
    if not unseen:
        return call
    agent.facts["unseen"] = rounds + 1
    seen.update(unseen)
    text = await world.call("inspect", {"step_ids": unseen})
    return (
        f"Not submitted yet: these steps were never inspected.\n{text[:SHOWN]}\n"
        "If one of them holds the first error that nobody mended, answer with it; else give the "
        "same answer again with final_answer."
    )
