"""A Harbor environment without containers: ``--env engine.harbor.environment:ShellEnvironment``.

One sandboxed shell of ours (``kernel.shell``) for each trial: this machine's own programs, no
network, folders in memory. It runs tasks that need no image: an ``environment/`` folder's files are
put into the working folder, and a Dockerfile in it is refused.
"""

from __future__ import annotations

import base64
import io
import shlex
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

from engine.harbor import folder
from kernel.shell import Shell, ShellLimits

ROOTS = ("/app", "/tests", "/solution", "/logs", "/installed-agent")
_MISSING = 127


class ShellEnvironment(BaseEnvironment):  # type: ignore[misc]
    """See ``harbor.environments.base.BaseEnvironment``. Files go up and down below ``ROOTS``."""

    _shell: Shell | None = None

    @staticmethod
    def type() -> str:
        return "coevo-shell"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        """Raises DataError for a task that needs an image."""
        folder.refuse_images(self.environment_dir, self.task_env_config.docker_image)

    async def start(self, force_build: bool) -> None:
        del force_build
        files = folder.archive(self.environment_dir)
        workdir = self.task_env_config.workdir or ROOTS[0]
        others = [root for root in ROOTS if root != workdir]
        self._shell = Shell({workdir: files, **dict.fromkeys(others, folder.EMPTY)},
                            limits=ShellLimits(command_s=3600.0))  # fmt: skip
        await self._ran("mkdir -p /logs/agent /logs/verifier /logs/artifacts")

    async def stop(self, delete: bool) -> None:
        del delete
        if self._shell is not None:
            await self._shell.close()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        del user  # there is one
        words = [f"export {n}={shlex.quote(v)};" for n, v in (self._merge_env(env) or {}).items()]
        words += [f"cd {shlex.quote(cwd)} &&"] if cwd else []
        done = await self._running.exec(" ".join([*words, command]), timeout_sec)
        return ExecResult(stdout=done.stdout, stderr=done.stderr, return_code=done.return_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = PurePosixPath(target_path)
        data = folder.one(target.name, Path(source_path))
        await self._put(str(target.parent), data)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._put(target_dir, folder.archive(Path(source_dir)))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        done = await self._ran(f"base64 -w0 -- {shlex.quote(source_path)}")
        target = Path(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base64.b64decode(done))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        done = await self._ran(f"tar -C {shlex.quote(source_dir)} -cf - . | base64 -w0")
        target = Path(target_dir)
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(done))) as packed:
            packed.extractall(target, filter="data")

    async def _put(self, target: str, data: bytes) -> None:
        await self._ran(f"mkdir -p -- {shlex.quote(target)}")
        await self._running.put(target, data)

    async def _ran(self, command: str) -> str:
        done = await self._running.exec(command)
        if done.return_code:
            raise RuntimeError(f"{command.split()[0]} failed ({done.stderr.strip()[-300:]})")
        return done.stdout

    @property
    def _running(self) -> Shell:
        if self._shell is None:
            raise RuntimeError("the environment was not started")
        return self._shell

    async def attach(self) -> Any:
        raise NotImplementedError("a shell without a terminal can't be attached to")
