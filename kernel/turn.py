"""One turn: which requests can be put to an endpoint, and what of a completion the harness gets."""

from __future__ import annotations

import json
from typing import Any

from kernel import tools
from kernel.contract import Completion, Message, RequestRefused


def seed(rollout_seed: int, number: int) -> int:
    """The sampling seed of one turn, fixed by the rollout's."""
    return (rollout_seed * 1_000_003 + number) % 2**31


def check_request(messages: list[Any], offered: list[Any]) -> None:
    """What no endpoint could read is refused here. Raises RequestRefused."""
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise RequestRefused("every message is an object with a role")
        if not isinstance(message.get("content"), str | list | None):
            raise RequestRefused("a message's content is text or a list of parts")
    for tool in offered:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise RequestRefused("every tool is {type: function, function: {name, ...}}")


def message(number: int, completion: Completion) -> tuple[Message, list[dict[str, Any]]]:
    """The assistant message for the history, and the parsed calls.

    A call whose arguments can't be parsed stays in the text: as a call it would make the next
    request unreadable for the endpoint.
    """
    content, raw, calls = _clean(completion.content), [], []
    for index, call in enumerate(completion.tool_calls):
        name, written = _clean(call.name), _clean(call.arguments) or "{}"
        arguments = tools.parse(written)
        if arguments is None:
            written = f'{{"name": {json.dumps(name)}, "arguments": {written}}}'
            content += f"\n<tool_call>\n{written}\n</tool_call>"
            continue
        key = call.id or f"call_{number}_{index}"
        function = {"name": name, "arguments": written}
        raw.append({"id": key, "type": "function", "function": function})
        calls.append({"id": key, "name": name, "arguments": arguments})
    result: Message = {"role": "assistant", "content": content.strip("\n") if raw else content}
    if raw:
        result["tool_calls"] = raw
    return result, calls


def _clean(text: str) -> str:
    """Without lone surrogates, which no file or socket takes."""
    return text.encode("utf-8", "replace").decode()
