"""An OpenAI-compatible endpoint that answers by script, for tests and demonstrations.

Chat Completions and Responses, whole and streamed, with tool calls; refusals, silence and cut
connections too. A script is a function from a request to an answer. In a process of its own::

    python -m engine.llm.scripted MODULE:FUNCTION [--port N] [--key KEY] [--model NAME]
"""

from __future__ import annotations

import argparse
import importlib
import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast

from engine.llm.spoken import Event, chat_body, chat_events, response_body, response_events
from engine.llm.wire import answer as said
from engine.llm.wire import history


@dataclass(frozen=True)
class Request:
    """What a client sent. ``number`` counts requests from 0, over all clients."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    number: int

    @property
    def messages(self) -> Sequence[Any]:
        """The messages or input items, as sent."""
        return history(self.body)

    @property
    def text(self) -> str:
        """All of the request as JSON text, to look for words in."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def prompt(self) -> str:
        """The text of the users' messages."""
        users = [m for m in self.messages if isinstance(m, dict) and m.get("role") == "user"]
        return said(users).text

    @property
    def results(self) -> tuple[str, ...]:
        """What the tools that were called so far gave back, in order."""
        found = []
        for message in self.messages:
            if message.get("role") == "tool":
                found.append(message.get("content"))
            elif message.get("type") in ("function_call_output", "custom_tool_call_output"):
                found.append(message.get("output"))
        return tuple(r if isinstance(r, str) else json.dumps(r) for r in found)


@dataclass(frozen=True)
class Answer:
    """``text`` and ``calls`` (name, arguments as an object or as raw text).

    ``usage`` is (prompt, cached, completion) tokens, None for four bytes a token and ``()`` for
    none in the reply. ``delay_s`` comes before the first byte, ``pause_s`` before each event of a
    stream. After ``cut`` events (of a whole reply: bytes) the connection breaks.
    """

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    usage: tuple[int, int, int] | tuple[()] | None = None
    delay_s: float = 0.0
    pause_s: float = 0.0
    cut: int | None = None


@dataclass(frozen=True)
class Refusal:
    """An HTTP error in OpenAI's form."""

    status: int
    message: str = "refused by script"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


@dataclass(frozen=True)
class Silence:
    """No answer at all: the connection hangs for ``seconds``, then breaks."""

    seconds: float = 3600.0


Script = Callable[[Request], Answer | Refusal | Silence]


class ScriptedEndpoint(ThreadingHTTPServer):
    """The server, a context manager that answers from a thread while it is open.

    ``key`` None takes any; another than ``key`` is answered 401, a model that isn't among
    ``models`` (where these are given) 404. ``requests`` are those the script was asked.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, script: Script, *, key: str | None = None, models: Sequence[str] = (), port: int = 0
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.script, self.key, self.models = script, key, tuple(models)
        self.requests: list[Request] = []
        self.stopped = threading.Event()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> ScriptedEndpoint:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stopped.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def take(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
        """Number a request and keep it."""
        with self._lock:
            request = Request(path, body, headers, len(self.requests))
            self.requests.append(request)
        return request


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedEndpoint
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path.split("?")[0] != "/v1/models":
            return self._refuse(Refusal(404, f"no {self.path} here"))
        models = [{"id": name, "object": "model"} for name in self.server.models]
        return self._json(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.split("?")[0]
        if path not in ("/v1/chat/completions", "/v1/responses"):
            return self._refuse(Refusal(404, f"no {path} here"))
        if self.server.key not in (None, self.headers.get("authorization", "")[7:]):
            return self._refuse(Refusal(401, "wrong API key", "invalid_api_key"))
        body = json.loads(data)
        if self.server.models and body.get("model") not in self.server.models:
            return self._refuse(Refusal(404, f"no model {body.get('model')!r}", "model_not_found"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = self.server.take(path, body, headers)
        answer = self.server.script(request)
        try:
            return self._play(request, answer)
        except OSError:  # the client has gone
            self.close_connection = True

    def _play(self, request: Request, answer: Answer | Refusal | Silence) -> None:
        if isinstance(answer, Silence):
            self.server.stopped.wait(answer.seconds)
            return self._break()
        self.server.stopped.wait(answer.delay_s)
        if isinstance(answer, Refusal):
            return self._refuse(answer)
        chat = request.path.endswith("completions")
        if request.body.get("stream"):
            return self._stream(answer, (chat_events if chat else response_events)(request, answer))
        return self._whole(answer, (chat_body if chat else response_body)(request, answer))

    def _whole(self, answer: Answer, body: Mapping[str, Any]) -> None:
        if answer.cut is None:
            return self._json(200, body)
        data = json.dumps(body).encode()
        self._head(200, "application/json", {"content-length": str(len(data))})
        self.wfile.write(data[: answer.cut])
        return self._break()

    def _stream(self, answer: Answer, events: Sequence[Event]) -> None:
        self._head(200, "text/event-stream", {"transfer-encoding": "chunked"})
        for event in events[: answer.cut]:
            self.server.stopped.wait(answer.pause_s)
            data = event.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        if answer.cut is None:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._break()

    def _refuse(self, refusal: Refusal) -> None:
        error = {"message": refusal.message, "type": "error", "code": refusal.code}
        self._json(refusal.status, {"error": error}, refusal.headers)

    def _json(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        data = json.dumps(body).encode()
        self._head(
            status, "application/json", {"content-length": str(len(data)), **(headers or {})}
        )
        self.wfile.write(data)

    def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _break(self) -> None:
        """Cut the connection without an end."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until interrupted; the base URL is the first line on stdout."""
    parser = argparse.ArgumentParser(prog="python -m engine.llm.scripted")
    parser.add_argument("script", metavar="MODULE:FUNCTION")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key")
    parser.add_argument("--model", action="append", default=[])
    given = parser.parse_args(arguments)
    module, _, name = given.script.partition(":")
    script = cast(Script, getattr(importlib.import_module(module), name))
    with ScriptedEndpoint(script, key=given.key, models=given.model, port=given.port) as endpoint:
        print(endpoint.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
