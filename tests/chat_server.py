"""A small Chat Completions endpoint on loopback that answers by script."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Callable[["_Handler"], None]


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer
    body: dict[str, Any]

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(self.body)
        self.server.next_step()(self)

    def answer(self, status: int, body: dict[str, Any], **headers: str) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


class ChatServer(ThreadingHTTPServer):
    """Plays its steps in turn and the last one for ever; keeps the bodies it was sent."""

    daemon_threads = True

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._steps, self._played = list(steps), 0
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []

    def next_step(self) -> Step:
        with self._lock:
            step = self._steps[min(self._played, len(self._steps) - 1)]
            self._played += 1
            return step

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def serving(*steps: Step) -> Iterator[ChatServer]:
    """A running server for the length of the block."""
    with ChatServer(steps) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def reply(content: str = "", *calls: tuple[str, str], model: str | None = None) -> Step:
    """A completion with ``content`` and tool calls as (name, arguments)."""

    def step(handler: _Handler) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [
                {"id": f"s{i}", "type": "function", "function": {"name": n, "arguments": a}}
                for i, (n, a) in enumerate(calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        body = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": model or handler.body["model"],
            "choices": [choice],
            "usage": usage,
        }
        handler.answer(200, body)

    return step


def refuse(status: int, message: str, code: str | None = None, **headers: str) -> Step:
    """An error in OpenAI's form."""
    body = {"error": {"message": message, "code": code, "type": "x"}}
    return lambda handler: handler.answer(status, body, **headers)


def hang_up(handler: _Handler) -> None:
    """Cut the connection in the middle of the answer."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True
