"""``transformers serve`` on this machine's CPUs: one process, checkpoints swapped by path.

Its continuous batching takes temperature, top-p and top-k from the first request after a swap and
keeps them for all that follow, so a model id here names the checkpoint *and* the sampling, as
``path@sampling``: another sampling is another id and starts its own batching. The revision behind
``@`` means nothing for a folder, and every reply repeats the id, which proves who answered.

``parallel`` requests run at once (docs/decisions has the figures), the others wait in the client.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.params import ServingParams
from engine.serving.base import Progress, silent
from engine.serving.client import Endpoint, OpenAIModel, Retry
from engine.serving.options import checked
from engine.serving.process import ServerProcess, cpu_environment, free_port
from engine.serving.prompt import ContextGuard, context_length
from engine.serving.turnstile import Turnstile
from kernel.contract import Completion, Message, ModelUnavailable, Sampling, ToolSchema

_START_S = 180.0


@dataclass(frozen=True)
class Options:
    """``serving.options`` of this backend. ``kv_tokens`` is the room for keys and values of all
    requests in flight; ``block`` the granularity at which prefixes are shared, in tokens."""

    parallel: int = 12
    threads: int = 0
    dtype: str = "auto"
    kv_tokens: int = 32768
    block: int = 32
    batch_tokens: int = 1024


class EmbeddedServer:
    """The default backend. With ``serving.reproducible`` there is no batching: one request at a
    time, each with its own seed, bit-stable on one machine (several times slower)."""

    name = "embedded"

    def __init__(self, params: ServingParams, folder: Path) -> None:
        self._params = params
        self._options = checked(Options, params.options)
        self._log = folder / "logs" / "server.log"
        self._process: ServerProcess | None = None
        self._base_url = ""
        self._turnstile = Turnstile(self.parallel)
        self._models: dict[str, OpenAIModel] = {}
        self._guards: dict[Path, ContextGuard] = {}

    @property
    def parallel(self) -> int:
        return 1 if self._params.reproducible else self._options.parallel

    @property
    def fingerprint(self) -> str:
        mode = "reproducible" if self._params.reproducible else "batched"
        return f"embedded/{mode}/{self._options.dtype}/context{self._params.context}"

    async def start(self, progress: Progress = silent) -> None:
        if self._process is not None and self._process.running:
            return
        port = free_port()
        self._base_url = f"http://127.0.0.1:{port}"
        env = cpu_environment()
        if self._options.threads:
            env["OMP_NUM_THREADS"] = str(self._options.threads)
        self._process = ServerProcess(self._command(port), env, self._log)
        await self._process.start(f"{self._base_url}/health", _START_S, progress)
        self._turnstile.forget()

    async def stop(self) -> None:
        models, self._models = self._models, {}
        for model in models.values():
            await model.close()
        if self._process is not None:
            await self._process.stop()

    def model(self, checkpoint: Path, digest: str) -> EmbeddedModel:
        path = checkpoint.resolve()
        if "@" in str(path):
            raise ModelError(
                f"{path}: the server can't take a path with '@'; move the run's folder"
            )
        if not (path / "config.json").is_file():
            raise ModelError(f"{path}: no checkpoint there (no config.json)")
        if path not in self._guards:  # each rollout asks; a tokenizer takes half a second
            self._guards[path] = ContextGuard(path, context_length(path, self._params.context))
        return EmbeddedModel(self, path, self._guards[path])

    def _command(self, port: int) -> list[str]:
        if find_spec("transformers") is None:
            raise ModelError("`transformers` isn't installed; `pip install 'coevo[embedded]'`")
        o = self._options
        # -P: a folder called engine where the user stands is not ours.
        command = [sys.executable, "-P", "-m", "engine.serving.segments", "serve"]
        command += ["--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--dtype", o.dtype, "--model-timeout", "3600"]
        if self._params.reproducible:
            return command
        command += ["--continuous-batching", "--cb-block-size", str(o.block)]
        command += ["--cb-num-blocks", str(max(o.kv_tokens, 2 * self._params.context) // o.block)]
        return [*command, "--cb-max-batch-tokens", str(o.batch_tokens)]

    async def ask(
        self,
        checkpoint: Path,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        """One completion of ``checkpoint``, when it is this request's turn. A caller that gives
        up doesn't end it: the server would go on anyway, beside what comes next."""
        work = asyncio.create_task(self._ask(checkpoint, messages, tools, sampling, seed))
        work.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(work)

    async def _ask(
        self,
        checkpoint: Path,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        key = f"{checkpoint}@{self._sampling_key(sampling)}"
        async with self._turnstile.enter(key, self._unload):
            if self._process is None or not self._process.running:
                raise ModelUnavailable(f"the embedded server isn't running; its log: {self._log}")
            if key not in self._models:
                self._models[key] = self._connect(key, checkpoint)
            return await self._models[key].complete(messages, tools, sampling, seed)

    def _connect(self, key: str, checkpoint: Path) -> OpenAIModel:
        endpoint = Endpoint(
            f"{self._base_url}/v1", key, served_as=key, mend=f"the server's log: {self._log}"
        )
        defaults = _generation_defaults(checkpoint)
        reproducible = self._params.reproducible

        def body(sampling: Sampling, seed: int) -> dict[str, Any]:
            config = json.dumps({**defaults, **_generation(sampling)}, sort_keys=True)
            # Batched, a seed would only reset the generator that all requests share.
            return {"generation_config": config, **({"seed": seed} if reproducible else {})}

        return OpenAIModel(endpoint, body, self._params.timeout_s, Retry(attempts=3))

    def _sampling_key(self, sampling: Sampling) -> str:
        if self._params.reproducible:
            return "each"
        if sampling.temperature == 0:
            return "greedy"
        return f"t{sampling.temperature}-p{sampling.top_p}-k{sampling.top_k}"

    async def _unload(self) -> None:
        """Free the checkpoints before: without it each one ever served stays in memory."""
        request = urllib.request.Request(f"{self._base_url}/reset", method="POST")
        try:
            await asyncio.to_thread(_call, request)
        except OSError as error:
            raise ModelUnavailable(
                f"{self._base_url}: no answer ({error}); the server's log: {self._log}"
            ) from error


class EmbeddedModel:
    """One checkpoint of an EmbeddedServer, with the context limit that the server lacks."""

    def __init__(self, server: EmbeddedServer, checkpoint: Path, guard: ContextGuard) -> None:
        self._server, self._checkpoint, self._guard = server, checkpoint, guard

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        self._guard.check(messages, tools, sampling)
        return await self._server.ask(self._checkpoint, messages, tools, sampling, seed)


def _call(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=30):
        pass


def _generation_defaults(checkpoint: Path) -> dict[str, Any]:
    """The checkpoint's token ids for generation: a request's config replaces its own whole."""
    path = checkpoint / "generation_config.json"
    source = path if path.exists() else checkpoint / "config.json"
    raw = json.loads(source.read_text("utf-8"))
    ids = ("bos_token_id", "eos_token_id", "pad_token_id")
    return {name: raw[name] for name in ids if raw.get(name) is not None}


def _generation(sampling: Sampling) -> dict[str, Any]:
    if sampling.temperature == 0:
        return {"do_sample": False, "max_new_tokens": sampling.max_tokens}
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_new_tokens": sampling.max_tokens,
    }
