"""``python -m kernel.smoke WORKSPACE``: does a harness stand on its own feet?

Whole episodes with a scripted model: an answer, tool calls, broken calls, long output, a context
overflow. It says nothing about how good a harness is, only that it runs, ends and keeps its
contract. The last line is ``SMOKE OK``, or the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel import budget, scripted, tools, workspace
from kernel.contract import (
    ContextLengthExceeded,
    HostWorld,
    InterfaceRules,
    Limits,
    Sampling,
)
from kernel.host import WorkerPool
from kernel.sandbox import SandboxUnavailable
from kernel.scripted import ScriptedModel, ScriptedWorld, Step
from kernel.trajectory import Trajectory

LIMITS = Limits(turns=8, wall_s=20.0, cpu_s=15)
_LONG = "A line of a very long output.\n" * 8000
_INSTRUCTION = "Do what is asked and give the answer."


async def smoke(
    pool: WorkerPool,
    files: Mapping[str, bytes],
    *,
    rules: InterfaceRules = scripted.SHELL_RULES,
    public: Mapping[str, Any] | None = None,
    world: Callable[[], HostWorld] | None = None,
    answer: Mapping[str, Any] | None = None,
    entry_points: Mapping[str, Sequence[str]] | None = None,
    instruction: str = _INSTRUCTION,
    limits: Limits = LIMITS,
) -> list[str]:
    """The problems of a harness; empty when it passes.

    ``world`` makes a fresh world per episode (default: one that answers anything under ``rules``
    and shows ``public``); ``answer`` are arguments for ``final_answer`` that a harness which
    checks answers can accept (default: the smallest that fit the tool's schema).
    """
    if problems := await pool.inspect(files, entry_points or {}, limits):
        return problems
    ends, problems = set(), []
    for name, steps, observation in scenarios(rules, answer):
        task = world() if world else ScriptedWorld(rules, public, observation)
        model = ScriptedModel(steps)
        trajectory = await pool.run(files, instruction, model, task, limits, Sampling(), 0)
        ends.add(trajectory.end)
        problems += _problem(name, trajectory)
        if trajectory.end == "timeout":
            break  # one that hangs would in every episode
    if ends <= {"turn_limit", "context_overflow"}:
        problems.append("it never ends by itself: every episode ran into the turn limit")
    return problems


def scenarios(
    rules: InterfaceRules, answer: Mapping[str, Any] | None = None
) -> list[tuple[str, list[Step], str]]:
    """Name, script, and what the world shows for each call."""
    schemas = tools.parameters(rules.tools)
    final: Step = scripted.text("The task is done.")
    if "final_answer" in schemas:
        arguments = tools.example(schemas["final_answer"]) if answer is None else answer
        final = scripted.call("final_answer", arguments)
    calls: list[Step] = [
        scripted.call(name, tools.example(schema))
        for name, schema in schemas.items()
        if name != "final_answer"
    ]
    first = next(iter(schemas), "nothing")
    broken: list[Step] = [
        scripted.malformed(),
        scripted.call("no_such_tool", {"x": 1}),
        scripted.call(first, {"unexpected": [None]}),
        scripted.call(first, '{"cut": '),
    ]
    return [
        ("an answer", [final], "ok"),
        ("tool calls", [*calls, final], "ok"),
        ("broken calls", [*broken, final], "ok"),
        ("text only", [scripted.text("Let me think."), final], "ok"),
        ("nothing at all", [scripted.text(""), final], ""),
        ("long output", [*calls[:1], scripted.text(_LONG), final], _LONG),
        ("a context overflow", [*calls[:1], ContextLengthExceeded("prompt too long"), final], "ok"),
    ]


def _problem(name: str, trajectory: Trajectory) -> list[str]:
    ended_well = trajectory.end in ("answered", "no_answer", "turn_limit") and not trajectory.error
    if ended_well or trajectory.end == "context_overflow":
        return []
    lines = trajectory.error.strip().splitlines()
    where = next((line.strip() for line in reversed(lines) if "/harness/" in line), "")
    return [f"{name}: {trajectory.end}: {' '.join([lines[-1] if lines else '', where]).strip()}"]


def budget_problems(
    base: Mapping[str, bytes], files: Mapping[str, bytes], limit: int | None
) -> list[str]:
    """Whether an edit is countable, not empty, and within ``limit`` added lines."""
    if problems := budget.refusals(base, files):
        return problems
    if workspace.code(base) == workspace.code(files):
        return ["nothing changed but notes"]
    added = budget.added_lines(base, files)
    if limit is not None and added > limit:
        return [f"{added} added lines, {limit} are allowed"]
    return []


def _entry(text: str) -> tuple[str, tuple[str, ...]]:
    match = re.fullmatch(r"([\w.]+)\(([\w, ]*)\)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not like name(parameter, parameter)")
    return match[1], tuple(part.strip() for part in match[2].split(",") if part.strip())


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kernel.smoke", description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--base", type=Path, help="the workspace it was edited from")
    parser.add_argument("--budget", type=int, help="added lines allowed against --base")
    parser.add_argument("--tools", type=Path, help="JSON list of the domain's tool schemas")
    parser.add_argument(
        "--entry", type=_entry, action="append", default=[], metavar="'NAME(PARAMETERS)'"
    )
    parser.add_argument(
        "--inside", action="store_true", help="already inside a sandbox: start no other"
    )
    return parser


async def _check(options: argparse.Namespace) -> list[str]:
    files = workspace.read(options.workspace)
    problems = []
    if options.base:
        problems += budget_problems(workspace.read(options.base), files, options.budget)
    rules = scripted.SHELL_RULES
    if options.tools:
        rules = InterfaceRules(tuple(json.loads(options.tools.read_text())))
    async with WorkerPool("none" if options.inside else "bwrap") as pool:
        entry_points = dict(options.entry)
        return problems + await smoke(pool, files, rules=rules, entry_points=entry_points)


def main() -> int:
    options = _arguments().parse_args()
    try:
        problems = asyncio.run(_check(options))
    except SandboxUnavailable as error:
        problems = [f"{error} (--inside: when a sandbox is around already)"]
    except (OSError, ValueError) as error:
        problems = [str(error)]
    for problem in problems:
        print(problem)
    print("SMOKE FAILED" if problems else "SMOKE OK")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
