"""The world of an update session: a shell in which the harness lies open to be edited.

Below ``/app`` only the workspace can be written, and it alone is read back. The kernel, the base
and the trials are mounted read-only; graders, labels, the archive and the journal aren't there at
all, and there is no network.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.domains.terminal.world import BASH
from engine.self_evolution import places
from engine.self_evolution.extraction import Files, Left, extract, pack, read_archive
from kernel.contract import ExecResult, InterfaceRules
from kernel.shell import Mount, Shell, ShellLimits


class UpdateWorld:
    """See kernel.contract.LastingWorld. ``answer`` is there once it is settled: what was left."""

    rules = InterfaceRules((BASH,), calls_per_turn=None, text_turns=True, wants_answer=False)

    def __init__(self, workspace: Files, mounts: Mapping[str, Path], limits: ShellLimits) -> None:
        self.public: dict[str, Any] = {}
        self._answer: Mapping[str, Any] | None = None
        self._shell = Shell(
            {places.WORKSPACE: pack(workspace)},
            [Mount(source, target) for target, source in mounts.items()],
            limits,
        )

    @property
    def answer(self) -> Mapping[str, Any] | None:
        return self._answer

    async def exec(self, command: str) -> ExecResult:
        return await self._shell.exec(command)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The only tool is ``bash``."""
        done = await self.exec(str(arguments["command"]))
        stderr = f"\n[stderr]\n{done.stderr}" if done.stderr else ""
        return f"{done.stdout}{stderr}\n[exit {done.return_code}]"

    async def settle(self) -> None:
        """End every process of the session, then read what it left."""
        archive = await self._shell.collect(places.WORKSPACE)
        logs = await self._shell.collect(places.LOGS)
        ended = f"session: its shell ended early: {self._shell.ended}"
        left = extract(archive) if archive else Left(None, ended)
        self._answer = {"workspace": left.to_json(), "logs": _texts(logs)}

    async def close(self) -> None:
        await self._shell.close()


def _texts(archive: bytes) -> Mapping[str, str]:
    """What was kept for the next round; nothing where it can't be read or is too much."""
    try:
        files = read_archive(archive) if archive else {}
    except ValueError as error:
        files = {"not-kept.txt": str(error).encode("utf-8", "replace")}
    return {name: data.decode("utf-8", "replace") for name, data in files.items()}
