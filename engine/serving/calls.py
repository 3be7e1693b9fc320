"""Tool calls as text: one chat template for rollouts and training, one parser on the way back.

The template writes calls as tags, the form of the Qwen3-Coder models::

    <tool_call>
    <function=final_answer>
    <parameter=commands>
    {kitchen.light.turn_on()}
    </parameter>
    </function>
    </tool_call>

A model of 135 million parameters writes this well, where JSON inside JSON breaks most of its
calls. The parser also reads the Hermes form, a JSON object between the ``tool_call`` tags, which
other models' templates use and servers may leave in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import CheckpointError
from kernel.contract import RawToolCall, ToolSchema

CHAT_TEMPLATE = Path(__file__).with_name("calls.jinja")

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_END = re.compile(r"<\|im_end\|>|<\|endoftext\|>")
_FUNCTION = re.compile(r"\s*<function=([^<>\s]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^<>\s]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)


class Parsed(NamedTuple):
    """What stands in one assistant text: the words around the calls, and the calls."""

    content: str
    calls: tuple[RawToolCall, ...]
    malformed: bool


def install(folder: Path) -> None:
    """Give the checkpoint in ``folder`` the chat template of this module."""
    (folder / "chat_template.jinja").write_bytes(CHAT_TEMPLATE.read_bytes())
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    config.pop("chat_template", None)
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def ensure_tools(folder: Path) -> bool:
    """Install the template where the checkpoint's own knows no tools (it would drop them
    silently); whether it was. Raises CheckpointError where the tokenizer has no ChatML marks."""
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    template = folder / "chat_template.jinja"
    own = template.read_text("utf-8") if template.exists() else config.get("chat_template", "")
    if "tools" in json.dumps(own):
        return False
    vocabulary = (folder / "tokenizer.json").read_text("utf-8")
    if "<|im_start|>" not in vocabulary or "<|im_end|>" not in vocabulary:
        raise CheckpointError(
            f"{folder.name}: its chat template knows no tools and its tokenizer no <|im_start|>; "
            "choose a model that was made for tool calls"
        )
    install(folder)
    return True


def parse(text: str, tools: Sequence[ToolSchema] = ()) -> Parsed:
    """Calls in ``text``, in either form. A call that isn't closed or can't be read makes the turn
    malformed: then ``content`` is the whole text and no call counts. ``tools`` say which
    parameters are no text, so that a tag's value is read as JSON."""
    text = _END.sub("", text)
    if "tool_call>" not in text and "<function=" not in text:
        return Parsed(text.strip(), (), False)
    calls = []
    for index, body in enumerate(_CALL.findall(text)):
        call = _tagged(body, index, tools) or _hermes(body, index)
        if call is None:
            return Parsed(text, (), True)
        calls.append(call)
    rest = _CALL.sub("", text)
    if "tool_call>" in rest or "<function=" in rest:
        return Parsed(text, (), True)
    return Parsed(rest.strip(), tuple(calls), False)


def well_formed(arguments: str) -> bool:
    """Whether a call's arguments are a JSON object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def render(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as the template writes it."""
    parts = [
        f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n"
        "</parameter>\n"
        for key, value in arguments.items()
    ]
    return f"<tool_call>\n<function={name}>\n{''.join(parts)}</function>\n</tool_call>"


def _tagged(body: str, index: int, tools: Sequence[ToolSchema]) -> RawToolCall | None:
    found = _FUNCTION.fullmatch(body)
    if found is None:
        return None
    name, inside = found[1], found[2]
    if _PARAMETER.sub("", inside).strip() or "<function=" in inside:
        return None
    types = _types(name, tools)
    arguments = {key: _value(text, types.get(key)) for key, text in _PARAMETER.findall(inside)}
    return RawToolCall(f"call_{index}", name, json.dumps(arguments, ensure_ascii=False))


def _types(name: str, tools: Sequence[ToolSchema]) -> Mapping[str, Any]:
    for tool in tools:
        if tool.get("function", {}).get("name") == name:
            properties = tool["function"].get("parameters", {}).get("properties", {})
            return {key: schema.get("type") for key, schema in properties.items()}
    return {}


def _value(text: str, kind: Any) -> Any:
    if kind in (None, "string"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _hermes(body: str, index: int) -> RawToolCall | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments")
    if not isinstance(arguments, dict):
        return None
    return RawToolCall(f"call_{index}", value["name"], json.dumps(arguments, ensure_ascii=False))
