"""Accept a tool call that the model wrote in a syntax the server doesn't read."""

from __future__ import annotations

import json
import re
from typing import Any

from kernel.contract import ToolCall


def reply(agent: Any, message: dict[str, Any], calls: list[Any]) -> list[Any]:
    """Where a turn has no call, look for one in its text and mend the history to show it."""
    if calls:
        return calls
    schemas = {tool["function"]["name"]: tool["function"] for tool in agent.all_tools}
    text = str(message.get("content") or "")
    found = (
        from_tags(text, schemas)
        or from_json(text, schemas)
        or from_code(text, schemas)
        or from_answer(text)
    )
    if found is None:
        return []
    call = ToolCall(f"read{agent.turns}", *found)
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    shown = {"id": call.id, "type": "function", "function": function}
    agent.messages[-1] = {"role": "assistant", "content": "", "tool_calls": [shown]}
    return [call]


def from_tags(text: str, schemas: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """<function=NAME> with <parameter=KEY> inside, closed or not."""
    name = re.search(r"<function=([^<>\s]+)>", text)
    if name is None or name.group(1) not in schemas:
        return None
    values = re.findall(r"<parameter=([^<>\s]+)>\s*(.*?)\s*(?=<|$)", text, re.DOTALL)
    required = schemas[name.group(1)]["parameters"].get("required", [])
    arguments = dict(values)
    return (name.group(1), arguments) if all(key in arguments for key in required) else None


def from_json(text: str, schemas: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """{"name": .., "arguments": {..}} or a tool's bare arguments, anywhere in the text."""
    for start in (match.start() for match in re.finditer(r"\{", text)):
        try:
            value, _ = json.JSONDecoder().raw_decode(text[start:])
        except ValueError:
            continue
        name = value.get("name") or value.get("tool") or value.get("function")
        arguments = value.get("arguments") or value.get("parameters") or value.get("args") or {}
        if isinstance(arguments, str):
            arguments = {"commands": arguments}
        if name in schemas and isinstance(arguments, dict):
            return str(name), arguments
        for known, schema in schemas.items():
            required = schema["parameters"].get("required", [])
            if required and all(isinstance(value.get(field), str) for field in required):
                return known, {field: value[field] for field in required}
    return None


def from_code(text: str, schemas: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """tool(argument="..") or tool("..") as a line of code."""
    for name, schema in schemas.items():
        fields = list(schema["parameters"].get("properties", {}))
        match = re.search(rf"{name}\s*\(\s*(?:\w+\s*=\s*)?([\"'])(.*?)\1\s*\)", text, re.DOTALL)
        if match and fields:
            return name, {fields[0]: match.group(2)}
    return None


def from_answer(text: str) -> tuple[str, dict[str, Any]] | None:
    """Commands that stand in the text without any call around them."""
    found = re.findall(r"\b[a-zA-Z_]+(?:\.[a-z_]+){1,2}\([^()]*\)|\berror_input\b", text)
    return ("final_answer", {"commands": "{" + ",".join(found) + "}"}) if found else None
