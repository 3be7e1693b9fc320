"""A scripted model of failure attribution, loaded by params
(``attribution_scripted:SolvingServer``)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import scripted
from attribution_solver import Said, solve

from kernel.contract import Completion, RawToolCall, Sampling


class SolvingServer(scripted.ScriptedServer):
    """Solves generated logs for the share of them that a checkpoint's skill says."""

    fingerprint = "solving"

    def model(self, folder: Path, digest: str) -> Any:
        return SolvingChat(json.loads((folder / "skill.json").read_text())["skill"])


class SolvingChat:
    """Reads the steps that the last user message names, then answers."""

    def __init__(self, skill: float) -> None:
        self._skill = skill

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        asked = [n for n, each in enumerate(messages) if each["role"] == "user"]
        listed = [n for n in asked if steps_of(str(messages[n]["content"]))]
        last = max(listed or asked)  # what a harness says in between lists no steps
        said = str(messages[last]["content"])
        question = said.partition("Question: ")[2].partition("\nSteps:")[0]
        steps = steps_of(said)
        seen = [str(each["content"]) for each in messages[last:] if each["role"] == "tool"]
        if not seen:
            return calls("inspect", {"step_ids": list(steps)}, seed)
        luck = int(hashlib.sha256(f"{question}{seed}".encode()).hexdigest()[:4], 16) / 0xFFFF
        agent, step = next(iter(steps.values())), max(steps)
        if luck < self._skill:
            agent, step = answered(question, seen[-1]) or (agent, step)
        return calls("final_answer", {"agent": agent, "step": step}, seed)


def calls(name: str, arguments: dict[str, Any], seed: int) -> Completion:
    call = RawToolCall(f"c{seed}", name, json.dumps(arguments))
    return Completion(content="", tool_calls=(call,), prompt_tokens=9, completion_tokens=3)


def steps_of(said: str) -> dict[int, str]:
    """Step ids with their agents, from lines such as ``3: Writer`` and ``4-6: Writer``."""
    found: dict[int, str] = {}
    for first, last, agent in re.findall(r"^(\d+)(?:-(\d+))?: (.+)$", said, re.M):
        found |= dict.fromkeys(range(int(first), int(last or first) + 1), agent)
    return found


def answered(question: str, seen: str) -> tuple[str, int] | None:
    """The solver's answer; None for a log that it doesn't understand."""
    lines = re.findall(r"^\[(\d+)\] ([^:\n]+): (.*)$", seen, re.M)
    said: Said = [(int(step), agent, text) for step, agent, text in lines]
    try:
        return solve(question, said)
    except LookupError:
        return None
