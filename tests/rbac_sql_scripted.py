"""A scripted model of text-to-SQL, loaded by params (``rbac_sql_scripted:SolvingServer``)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import scripted
from rbac_sql_solver import solve

from kernel.contract import Completion, RawToolCall, Sampling


class SolvingServer(scripted.ScriptedServer):
    """Solves generated questions for the share of them that a checkpoint's skill says."""

    fingerprint = "solving"

    def model(self, folder: Path, digest: str) -> Any:
        return SolvingChat(json.loads((folder / "skill.json").read_text())["skill"])


class SolvingChat:
    """Reads schema, policy and question from the last user message."""

    def __init__(self, skill: float) -> None:
        self._skill = skill

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        said = next(str(m["content"]) for m in reversed(messages) if m["role"] == "user")
        question = said.rsplit("Question: ", 1)[-1].splitlines()[0]
        luck = int(hashlib.sha256(f"{question}{seed}".encode()).hexdigest()[:4], 16) / 0xFFFF
        answer: dict[str, Any] = {"access_granted": False}
        if luck < self._skill:
            answer = answered(question, said)
        arguments = json.dumps({key: value for key, value in answer.items() if value is not None})
        call = RawToolCall(f"c{seed}", "final_answer", arguments)
        return Completion(content="", tool_calls=(call,), prompt_tokens=9, completion_tokens=3)


def answered(question: str, said: str) -> dict[str, Any]:
    """The solver's answer; a refusal to what it doesn't understand."""
    found = re.findall(r"CREATE TABLE (\w+) \((.*)\);", said)
    tables = {table: re.findall(r"(?:^|, )(\w+)", columns) for table, columns in found}
    try:
        return solve(question, {"tables": tables, "policy": said})
    except LookupError:
        return {"access_granted": False}
