"""A harness as a Harbor agent: ``harbor run --agent engine.harbor.agent:CoevoAgent``.

The harness runs on this machine, in the kernel's sandbox, as in every rollout; its commands go to
Harbor's environment. Options (``--ak name=value``): ``harness`` (a folder with harness.py; `coevo
use` makes one), ``endpoint`` (an OpenAI-compatible base URL), ``key_env`` (the variable that holds
its key), ``turns``, ``wall_s``, ``max_tokens``, ``temperature``, ``top_p``, ``seed``, ``sandbox``.
The model is Harbor's own option (``--model``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

from engine.errors import ConfigError
from engine.params import environment as variable
from engine.serving.client import Endpoint, OpenAIModel
from engine.workspace import read_workspace
from kernel.contract import ExecResult, InterfaceRules, Limits, Sampling
from kernel.host import WorkerPool
from kernel.trajectory import Trajectory

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a bash command in the task's container; returns what it printed.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "What to run."}},
            "required": ["command"],
        },
    },
}
TRAJECTORY = "coevo-trajectory.json"
_TIMED_OUT = 124


@dataclass(frozen=True)
class Options:
    """What ``--ak`` gives; numbers may come as text."""

    harness: Path
    endpoint: str
    key_env: str | None = None
    turns: int = 300
    wall_s: float = 7200.0
    max_tokens: int = 8192
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    sandbox: str = "bwrap"
    timeout_s: float = 600.0

    @classmethod
    def read(cls, given: dict[str, Any]) -> Options:
        """Take the own options out of ``given``. Raises ConfigError for what is missing or no
        number."""
        for name in ("harness", "endpoint"):
            if not given.get(name):
                raise ConfigError(f"Harbor agent coevo: give --ak {name}=...")
        integers, floats = (
            ("turns", "max_tokens", "seed"),
            ("wall_s", "temperature", "top_p", "timeout_s"),
        )
        kinds = {**dict.fromkeys(integers, int), **dict.fromkeys(floats, float)}
        own = {name: given.pop(name) for name in cls.__dataclass_fields__ if name in given}
        try:
            numbers = {name: kinds[name](value) for name, value in own.items() if name in kinds}
        except ValueError as error:
            raise ConfigError(f"Harbor agent coevo: {error}") from None
        return cls(**{**own, **numbers, "harness": Path(own["harness"]).expanduser()})


class EnvironmentWorld:
    """A Harbor environment as a harness's world: a shell, and nothing else. What is left in it is
    graded by Harbor."""

    def __init__(self, environment: BaseEnvironment) -> None:
        self.public: dict[str, Any] = {}
        self.rules = InterfaceRules((BASH,), calls_per_turn=None, text_turns=True,
                                    wants_answer=False)  # fmt: skip
        self._environment = environment

    @property
    def answer(self) -> None:
        return None

    async def exec(self, command: str) -> ExecResult:
        try:
            done = await self._environment.exec(command)
        except TimeoutError as error:
            return ExecResult("", f"timed out: {error}", _TIMED_OUT)
        return ExecResult(done.stdout or "", done.stderr or "", done.return_code)

    async def call(self, name: str, arguments: Any) -> str:
        done = await self.exec(str(arguments["command"]))
        parts = (done.stdout, done.stderr, f"[exit {done.return_code}]")
        return "\n".join(part for part in parts if part)


class CoevoAgent(BaseAgent):  # type: ignore[misc]
    """See ``harbor.agents.base.BaseAgent``."""

    def __init__(self, logs_dir: Path, model_name: str | None = None, **given: Any) -> None:
        self._own = Options.read(given)
        super().__init__(logs_dir, model_name, **given)

    @staticmethod
    def name() -> str:
        return "coevo"

    def version(self) -> str | None:
        try:
            return metadata.version("coevo")
        except metadata.PackageNotFoundError:
            return None

    async def setup(self, environment: BaseEnvironment) -> None:
        """The harness is read before anything is paid for. Raises ConfigError."""
        del environment
        if not (self._own.harness / "harness.py").is_file():
            raise ConfigError(f"{self._own.harness}: no harness.py; --ak harness names its folder")
        if not self.model_name:
            raise ConfigError("Harbor agent coevo: give --model")
        if self._own.key_env and not variable(self._own.key_env):
            raise ConfigError(f"Harbor agent coevo: {self._own.key_env} (key_env) is not set")

    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        """One rollout; its record lies in Harbor's logs, its figures in ``context``. A failed
        harness is a result to be graded, a dead endpoint raises ModelUnavailable."""
        trajectory = await self._rollout(instruction, EnvironmentWorld(environment))
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        text = json.dumps(trajectory.to_json(), ensure_ascii=False)
        (self.logs_dir / TRAJECTORY).write_text(text, "utf-8")
        context.n_input_tokens = trajectory.prompt_tokens
        context.n_output_tokens = trajectory.completion_tokens
        context.metadata = {
            "end": trajectory.end,
            "error": trajectory.error,
            "turns": trajectory.turns,
            "violations": trajectory.violations,
        }

    async def _rollout(self, instruction: str, world: EnvironmentWorld) -> Trajectory:
        own = self._own
        key = variable(own.key_env) if own.key_env else None
        endpoint = Endpoint(own.endpoint, str(self.model_name), key or "none",
                            mend="check --ak endpoint")  # fmt: skip
        model = OpenAIModel(endpoint, timeout_s=own.timeout_s)
        sampling = Sampling(own.temperature, own.top_p, 0, own.max_tokens)
        limits = Limits(
            turns=own.turns, wall_s=own.wall_s, cpu_s=600, memory_bytes=2**30,
            output_bytes=32 * 2**20, message_bytes=256 * 2**20,
        )  # fmt: skip
        try:
            async with WorkerPool(sandbox=own.sandbox) as pool:
                return await pool.run(
                    read_workspace(own.harness), instruction, model, world, limits, sampling,
                    own.seed,
                )  # fmt: skip
        finally:
            await model.close()
