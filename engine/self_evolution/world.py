"""The world of an update session: a shell in which the harness lies open to be edited.

Only ``/app`` and ``/logs/agent`` are writable, and only the workspace is read back. The kernel, the
base and the trials are mounted read-only; graders, labels, the archive and the journal aren't
there at all, and there is no network.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.params import LimitParams
from engine.self_evolution import places
from engine.self_evolution.extraction import Files, extract
from engine.workspace import write_workspace
from kernel.contract import ExecResult
from kernel.scripted import SHELL_RULES

_GIVEN = ("harness_kernel", "harness_base", "eval_trials")


class UpdateWorld:
    """See kernel.contract.HostWorld. ``answer`` is there once it is closed: what was left."""

    rules = SHELL_RULES

    def __init__(
        self,
        scratch: Path,
        *,
        workspace: Files,
        base: Files,
        trials: Path,
        kernel: Path,
        limits: LimitParams,
    ) -> None:
        from kernel.shell import Mount, Shell

        self.public: dict[str, Any] = {}
        self._answer: Mapping[str, Any] | None = None
        scratch.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(dir=scratch, prefix="world-"))
        self._app = self._folder / "app"
        write_workspace(workspace, self._app / "harness_workspace")
        write_workspace(base, self._folder / "base")
        self._shell = Shell(
            self._app,
            mounts=(
                Mount(kernel, places.KERNEL, writable=False),
                Mount(self._folder / "base", places.BASE, writable=False),
                Mount(trials, places.TRIALS, writable=False),
            ),
            limits=_limits(limits),
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

    async def close(self) -> None:
        """End every process of the session, then read what it left."""
        await self._shell.close()
        try:
            left = extract(self._app, "harness_workspace", _GIVEN)
            self._answer = {"workspace": left.to_json(), "logs": self._logs()}
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _logs(self) -> Mapping[str, str]:
        return {}


def _limits(params: LimitParams) -> Any:
    from kernel.shell import ShellLimits

    return ShellLimits()
