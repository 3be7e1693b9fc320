"""``vllm serve``, where vLLM is installed: one process for one checkpoint, restarted to swap.

Reloading weights in place has served stale ones (vllm #32718, #29341), so a swap is a restart.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.params import ServingParams, child_environment
from engine.serving.base import Progress, silent
from engine.serving.client import Endpoint, OpenAIModel, openai_body
from engine.serving.process import ServerProcess, free_port
from engine.serving.turnstile import Turnstile
from kernel.contract import Completion, Message, ModelUnavailable, Sampling, ToolSchema

_START_S = 1800.0


class VllmServer:
    """``serving.options`` may hold ``args``, a list of further arguments of ``vllm serve``, and
    ``program``, the path of another ``vllm``. Reproducible asks for its batch-invariant kernels."""

    name = "vllm"

    def __init__(self, params: ServingParams, folder: Path) -> None:
        self._params = params
        self._log = folder / "logs" / "vllm.log"
        self._program = str(params.options.get("program", "vllm"))
        self._args = [str(part) for part in params.options.get("args", ())]
        self._progress: Progress = silent
        self._process: ServerProcess | None = None
        self._model: OpenAIModel | None = None
        self._turnstile = Turnstile(params.concurrency)

    @property
    def parallel(self) -> int:
        return self._params.concurrency

    @property
    def fingerprint(self) -> str:
        mode = "invariant" if self._params.reproducible else "batched"
        return f"vllm/{mode}/context{self._params.context}/{' '.join(self._args)}"

    async def start(self, progress: Progress = silent) -> None:
        """Processes start with the first request for their checkpoint."""
        self._found()
        self._progress = progress

    async def stop(self) -> None:
        if self._model is not None:
            await self._model.close()
        if self._process is not None:
            await self._process.stop()
        self._model = self._process = None
        self._turnstile.forget()

    def model(self, checkpoint: Path, digest: str) -> VllmModel:
        return VllmModel(self, checkpoint.resolve(), digest)

    async def ask(
        self,
        checkpoint: Path,
        digest: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        async with self._turnstile.enter(digest, lambda: self._swap(checkpoint, digest)):
            if self._model is None:
                raise ModelUnavailable(f"vllm isn't running; its log: {self._log}")
            return await self._model.complete(messages, tools, sampling, seed)

    async def _swap(self, checkpoint: Path, digest: str) -> None:
        await self.stop()
        port, name = free_port(), f"coevo-{digest[:12]}"
        extra = {"VLLM_BATCH_INVARIANT": "1"} if self._params.reproducible else {}
        env = child_environment(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", **extra)
        self._process = ServerProcess(self.command(checkpoint, name, port), env, self._log)
        base = f"http://127.0.0.1:{port}"
        try:
            await self._process.start(f"{base}/health", _START_S, self._progress)
        except ModelError as error:
            raise ModelUnavailable(str(error)) from error
        endpoint = Endpoint(f"{base}/v1", name, served_as=name, mend=f"vLLM's log: {self._log}")
        self._model = OpenAIModel(endpoint, _body, self._params.timeout_s)

    def command(self, checkpoint: Path, name: str, port: int) -> list[str]:
        """The command line that serves ``checkpoint`` under ``name``."""
        return [
            *(self._found(), "serve", str(checkpoint), "--served-model-name", name),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--max-model-len", str(self._params.context)),
            *("--max-num-seqs", str(self._params.concurrency)),
            *("--generation-config", "vllm", "--enable-prefix-caching"),
            *("--enable-auto-tool-choice", "--tool-call-parser", _parser(checkpoint)),
            *self._args,
        ]

    def _found(self) -> str:
        beside = Path(sys.executable).with_name("vllm")
        if self._program == "vllm" and beside.exists():
            return str(beside)
        found = shutil.which(self._program)
        if found is None:
            raise ModelError(
                f"{self._program}: not installed; `pip install vllm` (it needs a GPU), or set "
                "serving.backend: embedded"
            )
        return found


class VllmModel:
    """One checkpoint of a VllmServer."""

    def __init__(self, server: VllmServer, checkpoint: Path, digest: str) -> None:
        self._server, self._checkpoint, self._digest = server, checkpoint, digest

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        return await self._server.ask(
            self._checkpoint, self._digest, messages, tools, sampling, seed
        )


def _body(sampling: Sampling, seed: int) -> Mapping[str, Any]:
    return {**openai_body(sampling, seed), "top_k": sampling.top_k or -1}


def _parser(checkpoint: Path) -> str:
    """vLLM's parser for the form of tool calls in the checkpoint's chat template."""
    template = checkpoint / "chat_template.jinja"
    text = template.read_text("utf-8") if template.exists() else ""
    return "qwen3_xml" if "<function=" in text else "hermes"
