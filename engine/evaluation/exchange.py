"""Models by address: rollouts on other machines ask this process, which holds keys and servers.

A rollout gets an address and a token of its own, which ends with it. Neither the key of an endpoint
nor the weights leave this machine, and a swap, a restart or the right weights' proof is the
server's business as ever.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from kernel.contract import (
    ChatModel,
    Completion,
    ContextLengthExceeded,
    Message,
    ModelUnavailable,
    RawToolCall,
    RequestRefused,
    Sampling,
    ToolSchema,
)

_ERRORS: dict[str, type[Exception]] = {
    "context": ContextLengthExceeded,
    "refused": RequestRefused,
    "unavailable": ModelUnavailable,
}
_LARGEST = 64 * 2**20
"""Bytes of one request, images included."""


class Exchange:
    """The side that has the models: an HTTP server on one address of this machine."""

    def __init__(self) -> None:
        self._models: dict[str, ChatModel] = {}
        self._runner: Any = None
        self.url = ""

    async def start(self, host: str) -> None:
        """Listen on a free port of ``host``."""
        from aiohttp import web

        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post("/complete", self._complete)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, 0)
        await site.start()
        self.url = f"http://{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @contextmanager
    def offered(self, model: ChatModel) -> Iterator[str]:
        """The token that ``model`` answers to, for the length of the block."""
        token = secrets.token_urlsafe(24)
        self._models[token] = model
        try:
            yield token
        finally:
            del self._models[token]

    async def _complete(self, request: Any) -> Any:
        from aiohttp import web

        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        model = self._models.get(token)
        if model is None:
            raise web.HTTPForbidden
        asked = await request.json()
        try:
            reply = await model.complete(
                asked["messages"], asked["tools"], Sampling(**asked["sampling"]), asked["seed"]
            )
        except tuple(_ERRORS.values()) as error:
            kind = next(name for name, each in _ERRORS.items() if isinstance(error, each))
            return web.json_response({"error": kind, "message": str(error)})
        return web.json_response({"completion": asdict(reply)})


class DistantModel:
    """The side that asks: a ``ChatModel`` behind an exchange's address."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        import aiohttp

        asked = {"messages": list(messages), "tools": list(tools), "seed": seed}
        body = json.dumps({**asked, "sampling": asdict(sampling)})
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
                session.post(f"{self._url}/complete", data=body) as reply,
            ):
                reply.raise_for_status()
                said = await reply.json()
        except aiohttp.ClientError as error:
            raise ModelUnavailable(f"{self._url}: no answer from the engine ({error})") from error
        if "error" in said:
            raise _ERRORS[said["error"]](said["message"])
        done = said["completion"]
        calls = tuple(RawToolCall(**call) for call in done.pop("tool_calls"))
        return Completion(**done, tool_calls=calls)
