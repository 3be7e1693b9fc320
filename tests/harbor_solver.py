"""A scripted model for the tests' Harbor tasks (``harbor_solver:AddingServer``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harbor_tasks import SOLVE
from scripted import ScriptedServer
from shell_domain import bash

from kernel.contract import Completion, Sampling


class AddingServer(ScriptedServer):
    """Adds the two numbers by one command."""

    fingerprint = "adding"

    def model(self, folder: Path, digest: str) -> AddingChat:  # type: ignore[override]
        return AddingChat()


class AddingChat:
    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        if any(message["role"] == "tool" for message in messages):
            return Completion("It is written.", completion_tokens=2)
        return Completion("", (bash(SOLVE),), prompt_tokens=9, completion_tokens=3)
