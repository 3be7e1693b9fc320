"""Chat messages as they go over the wire, and what is checked in them first.

Messages come from harness code, which may be wrong: what no endpoint could accept is the
harness's fault (``RequestRefused``), found here rather than as a server error. An image must be in
the message itself: by an address, a harness could make the server fetch whatever it likes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from kernel.contract import Message, RequestRefused

_ROLES = ("system", "user", "assistant", "tool")
_IMAGE = re.compile(r"data:image/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")
MAX_IMAGE = 768 * 2**10
"""Characters of an image part's URL."""


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
    if isinstance(content, list):
        content = [_part(part, f"{where}.content[{i}]") for i, part in enumerate(content)]
    elif not isinstance(content, str | None):
        raise RequestRefused(f"{where}.content: neither text nor a list of parts")
    sent: Message = {"role": message["role"], "content": "" if content is None else content}
    if message.get("tool_calls"):
        if message["role"] != "assistant" or not isinstance(message["tool_calls"], list):
            raise RequestRefused(f"{where}.tool_calls: a list, and in an assistant turn only")
        sent["tool_calls"] = [
            _call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(message["tool_calls"])
        ]
    for key in ("tool_call_id", "name"):
        if isinstance(message.get(key), str):
            sent[key] = message[key]
    return sent


def _part(part: Any, where: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    image = part.get("image_url") if kind == "image_url" else None
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str):
        raise RequestRefused(f"{where}: neither a text part nor an image_url part")
    if len(url) > MAX_IMAGE:
        raise RequestRefused(f"{where}: an image of {len(url)} characters; {MAX_IMAGE} are allowed")
    if not _IMAGE.fullmatch(url):
        raise RequestRefused(f"{where}: needs a data:image/...;base64 URL (png, jpeg, webp, gif)")
    return {"type": "image_url", "image_url": {"url": url}}


def _call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RequestRefused(f"{where}: needs a function with a name")
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    try:
        if not isinstance(json.loads(text), dict):
            raise ValueError
    except (ValueError, RecursionError):
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
