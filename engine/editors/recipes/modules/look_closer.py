"""Show the named step whole, between its neighbours, before an answer is submitted."""

from __future__ import annotations

from typing import Any

AROUND = 1  # neighbours on each side
SHOWN = 2400  # characters of the step itself; neighbours get a quarter each


async def call(agent: Any, call: Any, world: Any) -> Any:
    step = call.arguments.get("step")
    if call.name != "final_answer" or not isinstance(step, int) or "looked_at" in agent.facts:
        return call
    if step not in agent.harness.steps:
        return call
    agent.facts["looked_at"] = step
    near = [each for each in agent.harness.steps if abs(each - step) <= AROUND]
    texts = [await read(world, each, SHOWN if each == step else SHOWN // 4) for each in near]
    return (
        f"Not submitted yet. Step {step} and what stands around it:\n"
        + "\n".join(texts)
        + "\nIs this where the error was made, not only where it shows? Then give the same answer "
        "again; else inspect the steps before it, and answer with final_answer."
    )


async def read(world: Any, step: int, most: int) -> str:
    """One step's text from its beginning."""
    text = await world.call("inspect", {"step_ids": [step], "start": 0})
    return text if len(text) <= most else f"{text[:most]} [...]"
