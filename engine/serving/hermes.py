"""The Hermes form of tool calls: ``<tool_call>{"name": .., "arguments": {..}}</tool_call>``.

One chat template for rollouts and training, one template by which a server reads calls back, and
one parser for calls that a server left in the text.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import CheckpointError
from kernel.contract import RawToolCall

CHAT_TEMPLATE = Path(__file__).with_name("hermes.jinja")

RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        # Arguments are taken as text, never as JSON: a server that parses them answers 500 to a
        # broken call. A call with another header or without an end stays in the content.
        "tool_calls": {
            "open_pattern": (
                r'\s*<tool_call>\s*\{\s*"name":\s*"(?P<name>[^"\\\n]+)"\s*,\s*"arguments":\s*'
                r"(?=.*?\}\s*</tool_call>)"
            ),
            "close_pattern": r"\}\s*</tool_call>",
            "repeats": True,
            "content": "text",
            "content_args": {"strip": False},
            "transform": {
                "type": "function",
                "function": {"name": "{name}", "arguments": "{content}"},
            },
        },
        "content": {
            "close_pattern": r"\s*(?:<\|im_end\|>|<\|endoftext\|>)",
            "content": "text",
        },
    },
}
"""For ``response_template`` in tokenizer_config.json (transformers' declarative parser)."""

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_END = re.compile(r"<\|im_end\|>|<\|endoftext\|>")


class Parsed(NamedTuple):
    """What stands in one assistant text: the words around the calls, and the calls."""

    content: str
    calls: tuple[RawToolCall, ...]
    malformed: bool


def install(folder: Path) -> None:
    """Give the checkpoint in ``folder`` the Hermes chat template and its way back."""
    (folder / "chat_template.jinja").write_bytes(CHAT_TEMPLATE.read_bytes())
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    config.pop("chat_template", None)
    config["response_template"] = RESPONSE_TEMPLATE
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def ensure_tools(folder: Path) -> bool:
    """Install the Hermes template where the checkpoint's own knows no tools (it would drop them
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


def parse(text: str) -> Parsed:
    """Calls in ``text``. A call that isn't closed, isn't JSON or lacks its name or arguments makes
    the turn malformed: then ``content`` is the whole text and no call counts."""
    text = _END.sub("", text)
    if "<tool_call>" not in text and "</tool_call>" not in text:
        return Parsed(text.strip(), (), False)
    calls = []
    for index, body in enumerate(_CALL.findall(text)):
        call = _call(body, index)
        if call is None:
            return Parsed(text, (), True)
        calls.append(call)
    rest = _CALL.sub("", text)
    if "tool_call>" in rest:
        return Parsed(text, (), True)
    return Parsed(rest.strip(), tuple(calls), False)


def well_formed(arguments: str) -> bool:
    """Whether a call's arguments are a JSON object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def render(name: str, arguments: str) -> str:
    """A call as the model writes it."""
    return f'<tool_call>{{"name": {json.dumps(name)}, "arguments": {arguments}}}</tool_call>'


def _call(body: str, index: int) -> RawToolCall | None:
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
