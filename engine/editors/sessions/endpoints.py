"""The sessions' way to their model: doors of the gateway, and whose fault a shut one is."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from engine.context import Context
from engine.errors import BudgetSpent, ConfigError, ModelError
from engine.llm.endpoint import Endpoint, refusal
from engine.llm.gateway import Door, Gateway
from engine.llm.meter import Meter, open_meter
from engine.llm.role import role_endpoint
from engine.llm.usage import Caps
from engine.params import Params

ROLE = "editors"
_PROBE_S = 20.0
_ABSENT = (404, 405, 501)


class Doors:
    """Opens a door for each session of a round; none where no endpoint is configured."""

    def __init__(self, context: Context, folder: Path, needed: bool) -> None:
        self._params, self._folder = context.params, folder
        self._root, self._round = context.root, context.opened().round
        self._needed = needed or bool(context.params.llm.base_url)
        self._gateway: Gateway | None = None
        self._meter: Meter | None = None

    async def __aenter__(self) -> Doors:
        if self._needed:
            endpoint = role_endpoint(self._params, ROLE)
            self._meter = open_meter(self._root, self._params, self._round)
            self._gateway = Gateway(endpoint, self._meter, self._folder)
            await self._gateway.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._gateway is not None:
            await self._gateway.__aexit__(None, None, None)
        if self._meter is not None:
            self._meter.close()

    @contextlib.asynccontextmanager
    async def open(self, session: str, work: str, transcript: Path) -> AsyncIterator[Door | None]:
        """A session's door for as long as it runs; ``work`` names all that it depends on."""
        if self._gateway is None:
            yield None
            return
        own = self._params.editors
        caps = Caps(calls=own.turns, tokens=own.tokens, usd=own.usd)
        async with self._gateway.open(session, ROLE, caps, transcript, work=work) as door:
            yield door

    def blame(self, door: Door | None, session: str) -> None:
        """For a session that did nothing: raises BudgetSpent where the round's or the editors'
        budget left it no call, and ModelError where the endpoint answered it not once."""
        if door is None or self._meter is None or not door.trouble:
            return
        params = self._params
        for caps, used, whose, key in (
            (params.llm.caps, self._meter.spent(), "round", "llm.caps"),
            (params.editors.caps, self._meter.spent(ROLE), "role", f"{ROLE}.caps"),
        ):
            reached = caps.caps().reached(used)
            if reached:
                raise BudgetSpent(ROLE, session, whose, *reached, key)
        answered = door.usage.calls - door.usage.unanswered
        if not answered:
            raise ModelError(
                f"{ROLE} {session}: {door.trouble}; sessions that had finished are kept, "
                "`dvc repro` goes on with the others"
            )


async def probe(params: Params, paths: Sequence[str]) -> None:
    """Raises ConfigError or ModelError where the endpoint lacks one of these paths, refuses the
    key or doesn't answer. Costs no token: the request is empty, and what an endpoint says of its
    missing model or input shows that the path is there."""
    for path in paths:
        endpoint = role_endpoint(params, ROLE)
        status, said = await asyncio.to_thread(_status, endpoint, path)
        if status in _ABSENT and "model" not in said.lower():
            raise ConfigError(
                f"editors.kind: {params.editors.kind} asks {endpoint.url(path)}, which is not "
                f"there ({status}); use an endpoint that has it (vLLM and OpenAI have "
                "/v1/responses), or editors.kind: chat, which needs /v1/chat/completions alone"
            )
        if status in (401, 403):
            raise ModelError(f"{ROLE}: {refusal(endpoint, status, said)}; nothing was begun")


def _status(endpoint: Endpoint, path: str) -> tuple[int, str]:
    request = urllib.request.Request(
        endpoint.url(path),
        b"{}",
        {"content-type": "application/json", "authorization": f"Bearer {endpoint.api_key}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_PROBE_S) as reply:
            return int(reply.status), ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(2000).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        why = endpoint.clean(" ".join(str(error).split()))
        raise ModelError(
            f"{ROLE}: {endpoint.base_url} doesn't answer ({why}); check llm.base_url, then run "
            "`dvc repro` again; nothing was begun"
        ) from None
