"""The only way from an agent's sandbox to a language model.

Each session has a door: a unix socket to be mounted into its sandbox, and a token. Behind it stand
Chat Completions, Responses and the list of models of one endpoint, and nothing else. The gateway
alone has the endpoint's key; it counts each call, refuses those over a cap, and writes transcripts.

Whoever starts the sandbox gives it an environment made for it: what bubblewrap itself was started
with can be read inside under /proc/1/environ, `--clearenv` or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from engine.llm.endpoint import Endpoint
from engine.llm.meter import Account, Meter
from engine.llm.passage import APIS, LARGEST_BODY, Passage, failure, headers
from engine.llm.transcript import Transcript
from engine.llm.usage import Caps, Usage
from engine.params import proxy

if TYPE_CHECKING:
    from aiohttp import ClientSession, web

_CONNECTIONS = 64
_AT_ONCE = 16


class Door:
    """One session's way through. ``socket`` is to be mounted, ``token`` is the agent's API key.

    ``trouble`` is what last went wrong with the endpoint or a cap, "" after a good reply: why a
    session did nothing. ``usage`` counts from the opening.
    """

    def __init__(self, endpoint: Endpoint, account: Account, transcript: Path, path: Path) -> None:
        self.socket, self.token = path, secrets.token_urlsafe(24)
        self.account, self.trouble = account, ""
        self.transcript = Transcript(transcript, self._clean)
        self.endpoint = endpoint
        self._tasks: set[asyncio.Task[object]] = set()
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None

    @property
    def usage(self) -> Usage:
        """What the session used so far."""
        return self.account.usage

    def _clean(self, text: str) -> str:
        return self.endpoint.clean(text).replace(self.token, "[token]")

    async def _open(self, client: ClientSession) -> None:
        from aiohttp import web

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._handle(request, client)

        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )
        await self._runner.setup()
        protocol = self._runner.server
        assert protocol is not None

        def accept() -> asyncio.Protocol:
            crowded = len(protocol.connections) >= _CONNECTIONS
            return _Refusing() if crowded else protocol()

        self._server = await asyncio.get_running_loop().create_server(
            accept, sock=listening(self.socket)
        )

    async def close(self) -> None:
        """No new request, and those in flight are broken off (and counted)."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        self.socket.unlink(missing_ok=True)

    async def _handle(self, request: web.Request, client: ClientSession) -> web.StreamResponse:
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode(errors="replace"), self.token.encode()):
            return failure(401, "this is not the session's token", "invalid_api_key")
        if request.method == "GET" and request.path == "/v1/models":
            return await self._models(client)
        if request.method != "POST" or request.path not in APIS:
            return failure(404, f"{request.method} {request.path[:100]} is not open here", "closed")
        if len(self._tasks) >= _AT_ONCE:
            return failure(429, f"more than {_AT_ONCE} requests at once", "too_many")
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await Passage(self, self.endpoint, client, request).run()
        finally:
            self._tasks.discard(task)

    async def _models(self, client: ClientSession) -> web.Response:
        """The endpoint's list; where it has none, the one model that is open."""
        import aiohttp
        from aiohttp import web

        url, limit = self.endpoint.url("/models"), aiohttp.ClientTimeout(total=30.0)
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with client.get(
                url,
                headers=headers(self.endpoint),
                timeout=limit,
                allow_redirects=False,
                proxy=proxy(url),
            ) as reply:
                data = await reply.read()
                if reply.status == 200:
                    return web.Response(
                        body=self.endpoint.clean_bytes(data), content_type="application/json"
                    )
        own = {"id": self.endpoint.model, "object": "model"}
        return web.json_response({"object": "list", "data": [own]})


class Gateway:
    """Opens doors to one endpoint; an async context manager. ``folder`` takes the sockets."""

    def __init__(self, endpoint: Endpoint, meter: Meter, folder: Path) -> None:
        self._endpoint, self._meter, self._folder = endpoint, meter, folder
        self._client: ClientSession | None = None
        self._opened = 0

    async def __aenter__(self) -> Gateway:
        import aiohttp

        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for stale in self._folder.glob("*.sock"):  # of a killed process
            stale.unlink()
        # Not trust_env: a netrc entry for the host would take the place of the key.
        self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        assert self._client is not None
        await self._client.close()

    @contextlib.asynccontextmanager
    async def open(
        self,
        session: str,
        role: str,
        caps: Caps | None,
        transcript: Path,
        endpoint: Endpoint | None = None,
        work: str = "",
    ) -> AsyncIterator[Door]:
        """A door for the length of the block. ``caps`` are the session's own; what killed tries of
        its ``work`` used counts too. ``endpoint`` is another than the gateway's (another model,
        say)."""
        assert self._client is not None, "enter the gateway first"
        self._opened += 1
        account = self._meter.account(role, session, caps, work)
        path = self._folder / f"{os.getpid()}-{self._opened}.sock"
        door = Door(endpoint or self._endpoint, account, transcript, path)
        try:
            await door._open(self._client)
            yield door
        finally:
            await door.close()


class _Refusing(asyncio.Protocol):
    """Hangs up at once: the session already holds more connections than it can need."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def listening(path: Path) -> socket.socket:
    """A bound unix socket. The address goes through an open folder, for a path may be longer than
    the 107 bytes that an address can have. Any user of the sandbox may connect; the folder keeps
    others out."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        path.chmod(0o666)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    finally:
        os.close(folder)
    return listening
