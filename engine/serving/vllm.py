"""``vllm serve``, where vLLM is installed: one process for one checkpoint, restarted to swap.

Reloading weights in place has served stale ones (vllm #32718, #29341), so a swap is a restart. A
process that dies is started again, and the requests that it took along are asked again: rollouts
go on where they stood, as a completion depends on nothing but its request.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.params import ServingParams, child_environment
from engine.serving.base import Progress, silent
from engine.serving.client import Endpoint, OpenAIModel, Retry, openai_body
from engine.serving.families import Family, family
from engine.serving.options import checked
from engine.serving.process import ServerProcess, answers, free_port
from engine.serving.turnstile import Turnstile
from engine.serving.vllm_command import VllmOptions, command
from kernel.contract import Completion, Message, ModelUnavailable, Sampling, ToolSchema

_DEATHS = 3
"""In a row, without an answer between them."""
_TRIES = 20
"""Of one request: it may be what kills the server, while others are answered."""


class ServerDied(Exception):
    """The process ended, or no longer answers; ``first`` to tell of it."""

    def __init__(self, why: str, first: bool) -> None:
        super().__init__(why)
        self.first = first


class VllmServer:
    """Its options are ``VllmOptions``. Reproducible asks for vLLM's batch-invariant kernels."""

    name = "vllm"

    def __init__(self, params: ServingParams, folder: Path) -> None:
        self._params = params
        self._options = checked(VllmOptions, params.options)
        self._log = folder / "logs" / "vllm.log"
        self._progress: Progress = silent
        self._running: Running | None = None
        self._turnstile = Turnstile(params.concurrency)
        self._open, self._worked, self._deaths = False, False, 0

    @property
    def parallel(self) -> int:
        return self._params.concurrency

    @property
    def fingerprint(self) -> str:
        o = self._options
        mode = "invariant" if self._params.reproducible else "batched"
        parts = [f"vllm/{mode}/context{self._params.context}"]
        parts += [f"tensor{o.tensor_parallel}"] if o.tensor_parallel > 1 else []
        parts += [f"thinking={self._params.thinking}"] if self._params.thinking is not None else []
        parts += [part for part in (o.tool_parser, o.reasoning_parser) if part]
        return f"{'/'.join(parts)}/{' '.join(map(str, o.args))}"

    async def start(self, progress: Progress = silent) -> None:
        """Processes start with the first request for their checkpoint."""
        self._found()
        self._open, self._progress = True, progress

    async def stop(self) -> None:
        self._open = False
        await self._end()

    async def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.stop()
        self._turnstile.forget()

    def model(self, checkpoint: Path, digest: str) -> VllmModel:
        """Raises ModelError where no parser is known for its tool calls."""
        path = checkpoint.resolve()
        if not (path / "config.json").is_file():
            raise ModelError(f"{path}: no checkpoint there (no config.json)")
        return VllmModel(self, path, digest, self._family(path))

    async def ask(
        self,
        checkpoint: Path,
        digest: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        """One completion of ``checkpoint``, when it is this request's turn, from as many processes
        as it takes. Raises ModelUnavailable when they die one after the other."""
        for _ in range(_TRIES):
            try:
                async with self._turnstile.enter(digest, partial(self._swap, checkpoint, digest)):
                    assert self._running is not None
                    reply = await self._running.complete(messages, tools, sampling, seed)
            except ServerDied as error:
                self._count(error)
            else:
                self._worked, self._deaths = True, 0
                return reply
        raise ModelUnavailable(f"vllm died at each of {_TRIES} tries of one request: {self._log}")

    def _count(self, error: ServerDied) -> None:
        """A death is told by each request in flight, and counts once."""
        if error.first:
            self._deaths += 1
            self._progress(f"vllm died and is started again ({error})")
        if self._deaths >= _DEATHS:
            raise ModelUnavailable(f"vllm died {self._deaths} times in a row: {error}") from error

    async def _swap(self, checkpoint: Path, digest: str) -> None:
        if not self._open:
            raise ModelUnavailable(f"vllm isn't running; its log: {self._log}")
        await self._end()
        port, name = self._options.port or free_port(), f"coevo-{digest[:12]}"
        shape = self._family(checkpoint)
        line = command(self._found(), checkpoint, name, port, self._params, self._options, shape)
        process = ServerProcess(line, self._environment(), self._log)
        base = f"http://127.0.0.1:{port}"
        try:
            await process.start(f"{base}/health", self._options.start_s, self._progress)
            await asyncio.to_thread(_prove, base, name, checkpoint)
        except BaseException as error:
            await process.stop()
            if not isinstance(error, ModelError):
                raise
            if self._worked:
                raise ServerDied(str(error), first=True) from error
            raise ModelUnavailable(str(error)) from error
        endpoint = Endpoint(f"{base}/v1", name, served_as=name, mend=f"vLLM's log: {self._log}")
        body = partial(_body, shape)
        model = OpenAIModel(endpoint, body, self._params.timeout_s, Retry(attempts=3))
        self._running = Running(process, model, base, self._turnstile.forget)

    def _environment(self) -> dict[str, str]:
        own = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        invariant = {"VLLM_BATCH_INVARIANT": "1"} if self._params.reproducible else {}
        return child_environment(**{**own, **invariant, **self._options.env})

    def _family(self, checkpoint: Path) -> Family:
        return family(checkpoint, self._options.tool_parser, self._options.reasoning_parser)

    def _found(self) -> str:
        program = self._options.program
        beside = Path(sys.executable).with_name("vllm")
        if program == "vllm" and beside.exists():
            return str(beside)
        found = shutil.which(program)
        if found is None:
            raise ModelError(
                f"{program}: not installed; `pip install vllm` (it needs a GPU), or set "
                "serving.backend: embedded"
            )
        return found


class Running:
    """One live process and its client; ``on_death`` is called once, should it die."""

    def __init__(
        self, process: ServerProcess, model: OpenAIModel, base: str, on_death: Callable[[], None]
    ) -> None:
        self._process, self._model, self._base = process, model, base
        self._on_death = on_death
        self._end = asyncio.create_task(process.ended())
        self._dead = False

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        """Raises ServerDied as soon as the process has ended, or where it answers nothing."""
        asked = asyncio.create_task(self._model.complete(messages, tools, sampling, seed))
        try:
            await asyncio.wait({asked, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise self._death(self._end.result())
            return asked.result()
        except ModelUnavailable as error:
            if await asyncio.to_thread(answers, f"{self._base}/health"):
                raise
            raise self._death(str(error)) from error
        finally:
            asked.cancel()

    def _death(self, why: str) -> ServerDied:
        first, self._dead = not self._dead, True
        if first:
            self._on_death()
        return ServerDied(why, first)

    async def stop(self) -> None:
        await self._model.close()
        await self._process.stop()
        await self._end


class VllmModel:
    """One checkpoint of a VllmServer."""

    def __init__(self, server: VllmServer, checkpoint: Path, digest: str, shape: Family) -> None:
        self._server, self._checkpoint, self._digest = server, checkpoint, digest
        self.family = shape

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


def _body(shape: Family, sampling: Sampling, seed: int) -> Mapping[str, Any]:
    """vLLM's spelling. With ``tool_choice: none`` the prompt shows the tools all the same, and the
    text comes whole, for the engine's own parser."""
    body = {**openai_body(sampling, seed), "top_k": sampling.top_k or -1}
    return body if shape.tools else {**body, "tool_choice": "none"}


def _prove(base: str, name: str, checkpoint: Path) -> None:
    """The process that answers has loaded ``checkpoint``, whose files the store has verified, and
    calls it ``name``, which every reply must repeat. Raises ModelError."""
    try:
        with urllib.request.urlopen(f"{base}/v1/models", timeout=30) as reply:
            served = {each["id"]: each.get("root") for each in json.load(reply)["data"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{base}/v1/models: can't tell what it serves ({error})") from None
    if served.get(name) != str(checkpoint):
        raise ModelError(
            f"{base} serves {served}, not {name} from {checkpoint}; another server holds that port"
        )
