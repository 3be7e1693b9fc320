"""What the kernel's tests share: playing one harness, and a crowd of innocents beside it."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.contract import HostWorld, InterfaceRules, Limits, Sampling, ToolSchema
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, ScriptedWorld, Step, call, text
from kernel.trajectory import Trajectory

LIMITS = Limits(turns=6, wall_s=20.0, cpu_s=10)


def tool(name: str, **properties: Any) -> ToolSchema:
    """A tool that requires all of ``properties`` (name -> JSON schema) and allows no other."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": schema}}


LOOK = tool("look", room={"type": "string"})
FINAL = tool("final_answer", value={"type": "integer"})
RULES = InterfaceRules((LOOK, FINAL), calls_per_turn=1, text_turns=False)

PLAIN = b"""
async def run(instruction, model, world):
    messages = [{"role": "user", "content": instruction}]
    while True:
        reply = await model.chat(messages, tools=world.tools)
        messages.append(reply.message)
        if not reply.tool_calls:
            return
        for call in reply.tool_calls:
            seen = await world.call(call.name, call.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": seen})
            if call.name == "final_answer":
                return
"""
GOOD_STEPS: list[Step] = [call("look", {"room": "hall"}), call("final_answer", {"value": 7})]


def harness(body: str, preamble: str = "") -> dict[str, bytes]:
    """A workspace whose ``run`` has this body."""
    source = f"{preamble}\nasync def run(instruction, model, world):\n"
    source += textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return {"harness.py": source.encode()}


def play(
    files: dict[str, bytes],
    steps: Sequence[Step] | None = None,
    world: HostWorld | None = None,
    limits: Limits = LIMITS,
    sandbox: str = "bwrap",
    instruction: str = "Go.",
) -> Trajectory:
    """One rollout in a pool of its own."""

    async def main() -> Trajectory:
        model = ScriptedModel(steps or GOOD_STEPS)
        async with WorkerPool(sandbox) as pool:
            task = world or ScriptedWorld(RULES)
            return await pool.run(files, instruction, model, task, limits, Sampling(), 1)

    return asyncio.run(main())


def tell(files: dict[str, bytes], **options: Any) -> Any:
    """What a harness says through ``await world.exec(json.dumps(...))``, its last word."""
    world = ScriptedWorld()
    trajectory = play(files, [text("done")], world=world, **options)
    assert world.calls, trajectory
    return json.loads(world.calls[-1][1]["command"])


def play_beside_innocents(
    files: dict[str, bytes], limits: Limits = LIMITS, innocents: int = 6, sandbox: str = "bwrap"
) -> Trajectory:
    """A hostile rollout in the midst of others on the same zygote, which must all end well."""

    async def innocent(pool: WorkerPool) -> Trajectory:
        model = ScriptedModel(GOOD_STEPS, latency_s=0.2)
        world = ScriptedWorld(RULES)
        calm = replace(LIMITS, wall_s=30.0)
        return await pool.run({"harness.py": PLAIN}, "Go.", model, world, calm, Sampling(), 1)

    async def main() -> Trajectory:
        async with WorkerPool(sandbox) as pool:
            crowd = [asyncio.create_task(innocent(pool)) for _ in range(innocents)]
            model = ScriptedModel([text("done")])
            hostile = await pool.run(
                files, "Go.", model, ScriptedWorld(RULES), limits, Sampling(), 1
            )
            crowd += [asyncio.create_task(innocent(pool)) for _ in range(2)]
            for trajectory in await asyncio.gather(*crowd):
                assert (trajectory.end, trajectory.answer) == ("answered", {"value": 7})
                assert trajectory.violations == 0
            return hostile

    return asyncio.run(main())


def processes(marker: str) -> list[int]:
    """Pids on this machine whose command line holds ``marker``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line:
                found.append(int(entry.name))
    return found
