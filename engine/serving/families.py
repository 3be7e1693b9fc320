"""Which of vLLM's parsers reads a model's tool calls and reasoning.

Calls in a form that the engine's own parser reads stay in the text: one parser decides in every
backend which turn is malformed. vLLM's for the same forms don't serve for that: its Qwen3 parser
mends a call that is never closed, and where it is told to leave calls alone it drops them (0.32).
For the other forms the model's type says which of vLLM's parsers to take.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from engine.errors import ModelError

_TOOLS_BY_TYPE = {
    "deepseek_v3": "deepseek_v3",
    "gemma4": "gemma4",
    "glm4_moe": "glm45",
    "gpt_oss": "openai",
    "granite": "granite",
    "kimi_k2": "kimi_k2",
    "llama": "llama3_json",
    "llama4": "llama4_pythonic",
    "minimax_m2": "minimax_m2",
    "mistral": "mistral",
    "mistral3": "mistral",
}
_REASONING_BY_TYPE = {
    "deepseek_v3": "deepseek_r1",
    "glm4_moe": "glm45",
    "gpt_oss": "openai_gptoss",
    "minimax_m2": "minimax_m2",
    "qwen3": "qwen3",
    "qwen3_5": "qwen3",
    "qwen3_5_moe": "qwen3",
    "qwen3_moe": "qwen3",
}
_ALWAYS_THINKS = ("gpt_oss",)


class Family(NamedTuple):
    """Names of vLLM's parsers. ``tools`` '' is the engine's own parser, which gets the text whole;
    ``reasoning`` '' is none."""

    tools: str
    reasoning: str


def family(checkpoint: Path, tools: str = "", reasoning: str = "") -> Family:
    """What the checkpoint's template and type say; ``tools`` and ``reasoning`` go before them.
    Raises ModelError where nothing is known of its tool calls."""
    kind = json.loads((checkpoint / "config.json").read_text("utf-8")).get("model_type", "")
    template = _template(checkpoint)
    found = "" if _ours(template) else _TOOLS_BY_TYPE.get(kind, "")
    if not (tools or found or _ours(template)):
        raise ModelError(
            f"{checkpoint.name}: no parser is known for tool calls of a {kind or 'nameless'} "
            "model; name one of vLLM's in serving.options.tool_parser"
        )
    thinks = "<think>" in template or kind in _ALWAYS_THINKS
    default = _REASONING_BY_TYPE.get(kind, "") if thinks else ""
    return Family(tools or found, reasoning or default)


def _ours(template: str) -> bool:
    """Whether calls are in a form that ``engine.serving.calls`` reads: tags, or JSON in tags."""
    return "<function=" in template or ("<tool_call>" in template and "<arg_key>" not in template)


def _template(checkpoint: Path) -> str:
    path = checkpoint / "chat_template.jinja"
    if path.exists():
        return path.read_text("utf-8")
    config = json.loads((checkpoint / "tokenizer_config.json").read_text("utf-8"))
    return json.dumps(config.get("chat_template", ""))
