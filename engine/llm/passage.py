"""One request's way through the gateway: to the endpoint with the real key, and back, counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import BudgetSpent, ConfigError
from engine.llm.endpoint import Endpoint, refusal
from engine.llm.heard import Heard
from engine.llm.meter import Account, Ticket
from engine.llm.transcript import Transcript
from engine.llm.wire import Events, Tokens, event_data, guess, output, tokens
from engine.params import proxy

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, web

APIS = {"/v1/chat/completions": "chat", "/v1/responses": "responses"}
LARGEST_BODY = 64 * 2**20
_PASSED_ON = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "x-request-id")


class Session(Protocol):
    """Whose request it is; ``trouble`` is what last went wrong with the endpoint."""

    account: Account
    transcript: Transcript
    trouble: str


class Passage:
    """A request that was let in. ``run`` answers it, and counts it whatever becomes of it."""

    def __init__(
        self, session: Session, endpoint: Endpoint, client: ClientSession, request: web.Request
    ) -> None:
        self._session, self._endpoint = session, endpoint
        self._client, self._request = client, request
        self._api = APIS[request.path]
        self._heard = Heard()
        self._out: web.StreamResponse | None = None
        self._size = self._status = 0
        self._failed = self._over = False
        self._ticket: Ticket | None = None
        self._replied: list[Any] = []
        self._usage: Tokens | None = None
        self._call = 0

    async def run(self) -> web.StreamResponse:
        """The reply to the client; errors of the endpoint are passed on as they are."""
        body, wrong = await self._body()
        if wrong is not None:
            return wrong
        account = self._session.account
        try:
            self._ticket = account.admit(self._endpoint.model)
        except (BudgetSpent, ConfigError) as error:
            return self._spent(error)
        try:
            self._call = self._session.transcript.asked(self._api, body)
            return await self._ask(body)
        finally:
            self._count()

    async def _body(self) -> tuple[dict[str, Any], web.Response | None]:
        from aiohttp import web

        try:
            data = await self._request.read()
            body = json.loads(data)
        except web.HTTPRequestEntityTooLarge:
            return {}, failure(413, f"a request may have {LARGEST_BODY} bytes", "too_large")
        except (ValueError, RecursionError):
            return {}, failure(400, "the request's body is no JSON", "invalid_json")
        if not isinstance(body, dict):
            return {}, failure(400, "the request's body is no JSON object", "invalid_json")
        self._size = len(data)
        model = self._endpoint.model
        if body.get("model") != model:
            named = str(body.get("model"))[:100]
            said = f"the model {named!r} is not open to this session; ask {model!r}"
            return {}, failure(404, said, "model_not_found")
        return body, None

    def _spent(self, error: BudgetSpent | ConfigError) -> web.Response:
        said = str(error)
        if isinstance(error, BudgetSpent):
            said = (
                f"The budget of this {error.whose} is spent ({error.figures}). Don't ask again: "
                "leave the files as they are and stop."
            )
        self._session.transcript.note("refused", why=said)
        self._session.trouble = str(error)
        return failure(403, said, "budget_spent")

    async def _ask(self, body: dict[str, Any]) -> web.StreamResponse:
        import aiohttp

        url = self._endpoint.url("/" + self._request.path.removeprefix("/v1/"))
        limit = aiohttp.ClientTimeout(total=self._endpoint.timeout_s, sock_connect=10.0)
        try:
            async with self._client.post(
                url,
                json=_with_counts(self._api, body),
                headers=headers(self._endpoint),
                timeout=limit,
                allow_redirects=False,
                proxy=proxy(url),
            ) as reply:
                self._status = reply.status
                if reply.status == 200 and reply.content_type == "text/event-stream":
                    return await self._stream(reply, wanted=_wants_counts(self._api, body))
                return await self._whole(reply)
        except TimeoutError:
            limit_s = f"{self._endpoint.timeout_s:g} s"
            return self._broken(504, f"no answer within {limit_s} (llm.timeout_s)")
        except (aiohttp.ClientError, ValueError) as error:
            if self._gone():
                raise
            return self._broken(502, f"no answer ({' '.join(str(error).split())})")

    def _gone(self) -> bool:
        transport = self._request.transport
        return transport is None or transport.is_closing()

    async def _whole(self, reply: ClientResponse) -> web.Response:
        from aiohttp import web

        data = await reply.content.read(LARGEST_BODY + 1)
        while chunk := await reply.content.read(LARGEST_BODY + 1):
            data += chunk
            if len(data) > LARGEST_BODY:
                raise ValueError(f"a reply of more than {LARGEST_BODY} bytes")
        self._heard.bytes, self._over = len(data), True
        data = self._endpoint.clean_bytes(data)
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            body = {}
        if isinstance(body, dict):
            self._usage, self._replied = tokens(body), output(body)
        if reply.status != 200:
            self._replied = [{"error": data[:2000].decode("utf-8", "replace")}]
            said = _message(body) or reply.reason or ""
            self._session.trouble = refusal(self._endpoint, reply.status, said)
        else:
            self._session.trouble = ""
        return web.Response(status=reply.status, body=data, headers=_passed_on(reply))

    async def _stream(self, reply: ClientResponse, *, wanted: bool) -> web.StreamResponse:
        from aiohttp import web

        out = web.StreamResponse(headers={**_passed_on(reply), "cache-control": "no-cache"})
        self._out = out
        await out.prepare(self._request)
        events = Events()
        async for data in reply.content.iter_any():
            for event in events.feed(data):
                read = event_data(event)
                if read is not None:
                    self._heard.event(read)
                if self._heard.whole and self._heard.tokens:
                    self._over = True
                    self._count()
                if wanted or not _only_counts(read):
                    await out.write(self._endpoint.clean_bytes(event))
        if events.rest():
            await out.write(self._endpoint.clean_bytes(events.rest()))
        self._session.trouble = ""
        self._count()
        await out.write_eof()
        return out

    def _broken(self, status: int, why: str) -> web.StreamResponse:
        """The endpoint failed: an error, or a cut where the client already has half a reply."""
        said = self._endpoint.clean(f"{self._endpoint.base_url}: {why}")
        self._session.trouble, self._failed = said, True
        if self._out is None:
            return failure(status, said, "endpoint_failed")
        if self._request.transport is not None:
            self._request.transport.abort()
        return self._out

    def _count(self) -> None:
        """Once: before the client has the whole reply, so that nothing it had is missing after a
        kill; or as it broke off. Where the client left, what was heard is paid for."""
        if self._ticket is None:
            return
        ticket, self._ticket = self._ticket, None
        account = self._session.account
        usage = self._usage or self._heard.tokens
        if self._status >= 400 or (self._failed and not self._status):
            used = account.fail(ticket)
        elif usage is not None:
            used = account.charge(ticket, *usage)
        else:
            used = account.charge(ticket, *guess(self._size, self._heard.bytes), guessed=True)
        self._session.transcript.answered(
            self._call,
            self._replied or self._heard.output(),
            status=self._status,
            whole=self._over or self._heard.whole,
            usage=used.figures(),
        )


def headers(endpoint: Endpoint) -> dict[str, str]:
    """What a request to the endpoint carries: the key, and nothing of the client's."""
    return {"authorization": f"Bearer {endpoint.api_key}", "accept-encoding": "identity"}


def failure(status: int, message: str, code: str) -> web.Response:
    """An error in OpenAI's form."""
    from aiohttp import web

    body = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return web.json_response(body, status=status)


def _passed_on(reply: ClientResponse) -> dict[str, str]:
    return {name: reply.headers[name] for name in _PASSED_ON if name in reply.headers}


def _message(body: Any) -> str:
    """An error's own words, in OpenAI's form or another."""
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)


def _wants_counts(api: str, body: Mapping[str, Any]) -> bool:
    """Whether the client asked for the counts that a stream ends with (or gets them anyway)."""
    options = body.get("stream_options")
    return api != "chat" or (isinstance(options, dict) and bool(options.get("include_usage")))


def _with_counts(api: str, body: dict[str, Any]) -> dict[str, Any]:
    """The request, asking for the counts of a streamed chat completion."""
    if api != "chat" or not body.get("stream"):
        return body
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    return {**body, "stream_options": {**options, "include_usage": True}}


def _only_counts(event: Mapping[str, Any] | None) -> bool:
    """Whether a chunk says nothing but the counts, which this client didn't ask for."""
    return event is not None and event.get("choices") == [] and bool(event.get("usage"))
