"""A scripted model for the guide's example domain: right as often as its skill says."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripted import ScriptedServer

from kernel.contract import Completion, RawToolCall, Sampling

METRES = {"inches": 0.0254, "feet": 0.3048, "metres": 1.0, "kilometres": 1000.0, "miles": 1609.344}


class ConversionServer(ScriptedServer):
    """Serves a checkpoint folder by its ``skill.json``."""

    def model(self, folder: Path, digest: str) -> ConversionChat:  # type: ignore[override]
        return ConversionChat(json.loads((folder / "skill.json").read_text())["skill"])


class ConversionChat:
    """Looks a unit up, then answers; now and then with a broken call first."""

    def __init__(self, skill: float) -> None:
        self._skill = skill

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        question = next(m["content"] for m in messages if str(m["content"]).startswith("How many"))
        found = re.fullmatch(r"How many (\w+) are (\d+) (\w+)\?", question)
        luck = int(hashlib.sha256(f"{question}{seed}".encode()).hexdigest()[:4], 16) / 0xFFFF
        if found is None or (luck > 0.9 and len(messages) == 2):
            return Completion("<tool_call>{broken", malformed=True, completion_tokens=3)
        to, amount, unit = found.groups()
        if not any(m["role"] == "tool" for m in messages):
            return self._call("metres", {"unit": unit})
        factor = METRES[unit] / METRES[to] if luck < self._skill else 1.0
        return self._call("final_answer", {"value": int(amount) * factor})

    def _call(self, name: str, arguments: dict[str, Any]) -> Completion:
        call = RawToolCall(f"c-{name}", name, json.dumps(arguments))
        return Completion("", (call,), prompt_tokens=9, completion_tokens=3)
