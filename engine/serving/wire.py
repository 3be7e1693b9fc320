"""Chat messages as they go over the wire, and what is checked in them first.

Messages come from harness code, which may be wrong: what no endpoint could accept is the
harness's fault (``RequestRefused``), found here rather than as a server error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kernel.contract import Message, RequestRefused

_ROLES = ("system", "user", "assistant", "tool")


def outgoing(messages: Sequence[Message]) -> list[Message]:
    """Copies of ``messages`` in plain OpenAI form. Raises RequestRefused naming the message."""
    if not messages:
        raise RequestRefused("messages: empty")
    return [_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def rendered_form(messages: Sequence[Message]) -> list[Message]:
    """What a chat template is given for ``messages``: parts joined to text, arguments as objects,
    and no text beside tool calls. It mirrors what ``transformers serve`` does, so that training
    text is the text of the rollouts."""
    result = []
    for message in outgoing(messages):
        calls = message.get("tool_calls")
        content = "" if calls else message.get("content") or ""
        if not isinstance(content, str):
            content = " ".join(part["text"] for part in content if part.get("type") == "text")
        shown: Message = {"role": message["role"], "content": content}
        if calls:
            shown["tool_calls"] = [_with_object(call) for call in calls]
        if "tool_call_id" in message:
            shown["tool_call_id"] = message["tool_call_id"]
        result.append(shown)
    return result


def _message(message: Any, where: str) -> Message:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise RequestRefused(f"{where}: needs a role, one of {', '.join(_ROLES)}")
    content = message.get("content")
    if not (content is None or isinstance(content, str) or _are_parts(content)):
        raise RequestRefused(f"{where}.content: neither text nor a list of parts")
    sent: Message = {"role": message["role"], "content": "" if content is None else content}
    if message.get("tool_calls"):
        if message["role"] != "assistant":
            raise RequestRefused(f"{where}.tool_calls: only an assistant turn has tool calls")
        sent["tool_calls"] = [
            _call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(message["tool_calls"])
        ]
    for key in ("tool_call_id", "name"):
        if isinstance(message.get(key), str):
            sent[key] = message[key]
    return sent


def _are_parts(content: Any) -> bool:
    return isinstance(content, list) and all(
        isinstance(part, dict) and (part.get("type") != "text" or isinstance(part.get("text"), str))
        for part in content
    )


def _call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RequestRefused(f"{where}: needs a function with a name")
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    try:
        if not isinstance(json.loads(text), dict):
            raise ValueError
    except ValueError:
        raise RequestRefused(f"{where}.function.arguments: not a JSON object") from None
    return {
        "id": str(call.get("id", "")),
        "type": "function",
        "function": {"name": function["name"], "arguments": text},
    }


def _with_object(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    parsed = json.loads(function["arguments"])
    return {**call, "function": {"name": function["name"], "arguments": parsed}}
