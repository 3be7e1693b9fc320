"""A scripted answer as the two APIs write it, whole and as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Event = str


class Asked(Protocol):
    """The part of a request that shapes its reply."""

    @property
    def body(self) -> Mapping[str, Any]: ...
    @property
    def number(self) -> int: ...


class Said(Protocol):
    """The part of an answer that shapes the reply."""

    @property
    def text(self) -> str: ...
    @property
    def calls(self) -> Sequence[tuple[str, Any]]: ...
    @property
    def usage(self) -> tuple[int, int, int] | tuple[()] | None: ...


def chat_body(request: Asked, answer: Said) -> dict[str, Any]:
    """A whole chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.calls:
        message["tool_calls"] = _chat_calls(request, answer)
    finish = "tool_calls" if answer.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    head = _chat_head(request, "chat.completion")
    return {**head, "choices": [choice], **_chat_usage(request, answer)}


def chat_events(request: Asked, answer: Said) -> list[Event]:
    """A streamed one; the counts come last, where the request asks for them."""
    head = _chat_head(request, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Event:
        return _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": piece}) for piece in _pieces(answer.text)]
    for index, call in enumerate(_chat_calls(request, answer)):
        opened = {**call, "function": {**call["function"], "arguments": ""}}
        events.append(chunk({"tool_calls": [{"index": index, **opened}]}))
        for piece in _pieces(call["function"]["arguments"]):
            part = {"index": index, "function": {"arguments": piece}}
            events.append(chunk({"tool_calls": [part]}))
    events.append(chunk({}, "tool_calls" if answer.calls else "stop"))
    if (request.body.get("stream_options") or {}).get("include_usage"):
        usage = _chat_usage(request, answer)
        events += [_data({**head, "choices": [], **usage})] if usage else []
    return [*events, "data: [DONE]\n\n"]


def response_body(request: Asked, answer: Said) -> dict[str, Any]:
    """A whole response."""
    return {
        **_response_head(request),
        "status": "completed",
        "output": _items(request, answer),
        **_response_usage(request, answer),
    }


def response_events(request: Asked, answer: Said) -> list[Event]:
    """A streamed one."""
    opened = {**_response_head(request), "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": opened}]
    for index, item in enumerate(_items(request, answer)):
        events.append(_item_event("response.output_item.added", index, {**item, **_empty(item)}))
        events += _deltas(index, item, answer.text)
        events.append(_item_event("response.output_item.done", index, item))
    events.append({"type": "response.completed", "response": response_body(request, answer)})
    return [_data({**event, "sequence_number": n}, event["type"]) for n, event in enumerate(events)]


def _deltas(index: int, item: Mapping[str, Any], text: str) -> list[dict[str, Any]]:
    """What comes between an item's first event and its last."""
    where = {"item_id": item["id"], "output_index": index}
    if item["type"] == "function_call":
        kind, whole = "response.function_call_arguments", item["arguments"]
        pieces = [{"type": f"{kind}.delta", "delta": p, **where} for p in _pieces(whole)]
        return [
            *pieces,
            {"type": f"{kind}.done", "arguments": whole, "name": item["name"], **where},
        ]
    where["content_index"] = 0
    [part] = item["content"]
    return [
        {"type": "response.content_part.added", "part": {**part, "text": ""}, **where},
        *({"type": "response.output_text.delta", "delta": p, **where} for p in _pieces(text)),
        {"type": "response.output_text.done", "text": text, **where},
        {"type": "response.content_part.done", "part": part, **where},
    ]


def _item_event(kind: str, index: int, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "output_index": index, "item": item}


def _empty(item: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
    return {"status": "in_progress", **empty}


def _items(request: Asked, answer: Said) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.text or not answer.calls:
        items.append(
            {
                "type": "message",
                "id": f"msg_{request.number}",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": answer.text, "annotations": []}],
            }
        )
    for index, (name, arguments) in enumerate(answer.calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{request.number}_{index}",
                "call_id": f"call_{request.number}_{index}",
                "status": "completed",
                "name": name,
                "arguments": _raw(arguments),
            }
        )
    return items


def _chat_calls(request: Asked, answer: Said) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{request.number}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": _raw(arguments)},
        }
        for index, (name, arguments) in enumerate(answer.calls)
    ]


def _raw(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _counts(request: Asked, answer: Said) -> tuple[int, int, int]:
    if answer.usage:
        return answer.usage
    spoken = answer.text + "".join(name + _raw(arguments) for name, arguments in answer.calls)
    return len(json.dumps(request.body)) // 4, 0, max(1, len(spoken) // 4)


def _chat_usage(request: Asked, answer: Said) -> dict[str, Any]:
    if answer.usage == ():
        return {}
    prompt, cached, completion = _counts(request, answer)
    return {
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
    }


def _response_usage(request: Asked, answer: Said) -> dict[str, Any]:
    if answer.usage == ():
        return {"usage": None}
    prompt, cached, completion = _counts(request, answer)
    return {
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        }
    }


def _chat_head(request: Asked, kind: str) -> dict[str, Any]:
    model = request.body.get("model")
    return {"id": f"chat_{request.number}", "object": kind, "created": 0, "model": model}


def _response_head(request: Asked) -> dict[str, Any]:
    return {
        "id": f"resp_{request.number}",
        "object": "response",
        "created_at": 0,
        "model": request.body.get("model"),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _pieces(text: str) -> list[str]:
    """The text in pieces of a few words' length."""
    return [text[start : start + 24] for start in range(0, len(text), 24)]


def _data(body: Mapping[str, Any], name: str = "") -> Event:
    lead = f"event: {name}\n" if name else ""
    return f"{lead}data: {json.dumps(body)}\n\n"
