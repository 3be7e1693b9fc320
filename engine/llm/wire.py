"""Requests and replies of Chat Completions and Responses, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kernel.contract import RawToolCall

_BYTES_PER_TOKEN = 4
_LONGEST_EVENT = 32 * 2**20


class Tokens(NamedTuple):
    """``cached`` are part of ``prompt``."""

    prompt: int
    cached: int
    completion: int


class Answer(NamedTuple):
    """What a model said, and the tools it called."""

    text: str
    calls: tuple[RawToolCall, ...]


def tokens(body: Mapping[str, Any]) -> Tokens | None:
    """A reply's own counts, by either API; None where it has none."""
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        return None
    prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
    completion = usage.get("completion_tokens", usage.get("output_tokens"))
    if not isinstance(prompt, int) or not isinstance(completion, int):
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Tokens(prompt, min(cached, prompt) if isinstance(cached, int) else 0, completion)


def storable(value: Any) -> Any:
    """A JSON value with "?" for each half of a character, which no file or socket takes."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def guess(request_bytes: int, reply_bytes: int) -> Tokens:
    """Token counts where the endpoint gave none: four bytes each."""
    return Tokens(request_bytes // _BYTES_PER_TOKEN, 0, reply_bytes // _BYTES_PER_TOKEN)


def history(request: Mapping[str, Any]) -> list[Any]:
    """The messages of a request, by either API."""
    for field in ("messages", "input"):
        value = request.get(field)
        if isinstance(value, list):
            return value
        if isinstance(value, str):
            return [{"role": "user", "content": value}]
    return []


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list that another program wrote; nothing where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def output(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages (or items) of a whole reply, by either API."""
    if "output" in body:
        return objects(body["output"])
    return objects([choice.get("message") for choice in objects(body.get("choices"))])


def answer(items: list[dict[str, Any]]) -> Answer:
    """The text and tool calls in a reply's messages or items."""
    text: list[str] = []
    calls: list[RawToolCall] = []
    for item in items:
        if item.get("type") == "function_call":
            calls.append(_called(item.get("call_id"), item))
            continue
        content = item.get("content") if item.get("type") in (None, "message") else None
        text += [content] if isinstance(content, str) else _texts(content)
        for call in objects(item.get("tool_calls")):
            calls += [_called(call.get("id"), f) for f in objects([call.get("function")])]
    return Answer("".join(text), tuple(calls))


def _called(call: Any, function: Mapping[str, Any]) -> RawToolCall:
    arguments = function.get("arguments") or "{}"
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return RawToolCall(str(call), str(function.get("name")), written)


def _texts(parts: Any) -> list[str]:
    return [part["text"] for part in objects(parts) if isinstance(part.get("text"), str)]


def as_items(messages: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages as the input items of the Responses API."""
    items: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message["tool_call_id"],
                    "output": message["content"],
                }
            )
            continue
        if message.get("content"):
            items.append({"role": message["role"], "content": message["content"]})
        for call in message.get("tool_calls") or ():
            function = call["function"]
            items.append({"type": "function_call", "call_id": call["id"], **function})
    return items


def as_functions(tools: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Chat tools as the Responses API spells them."""
    return [{"type": "function", "strict": False, **tool["function"]} for tool in tools]


class Events:
    """Cuts a stream of bytes into server-sent events, each with its blank line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The events that ``data`` completes. Raises ValueError for one without an end."""
        rest = (self._rest + data).replace(b"\r\n", b"\n")  # a line's end may come in two parts
        *whole, self._rest = rest.split(b"\n\n")
        if len(self._rest) > _LONGEST_EVENT:
            raise ValueError("an event of the stream has no end")
        for event in whole:
            yield event + b"\n\n"

    def rest(self) -> bytes:
        """What came after the last whole event."""
        return self._rest


def event_data(event: bytes) -> dict[str, Any] | None:
    """The JSON object in an event; None for comments and ``[DONE]``."""
    lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
    try:
        data = json.loads(b"\n".join(lines))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
