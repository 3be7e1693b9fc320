"""Settings whose ``vllm serve`` command lines are golden: the papers' and the awkward ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.params import ServingParams, parse
from engine.presets import preset
from engine.serving.calls import CHAT_TEMPLATE
from engine.serving.families import family
from engine.serving.options import checked
from engine.serving.vllm_command import VllmOptions, command

QWEN = "{% if tools %}<tool_call>\n<function=NAME>{% endif %}<think>"
HERMES = '{% if tools %}<tool_call>{"name": NAME, "arguments": {}}</tool_call>{% endif %}'
MODELS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "qwen3.5-9b": (
        {"model_type": "qwen3_5", "text_config": {"max_position_embeddings": 262144}},
        QWEN,
    ),
    "smollm2-135m": (
        {"model_type": "llama", "max_position_embeddings": 8192},
        CHAT_TEMPLATE.read_text("utf-8"),
    ),
    "hermes-8b": ({"model_type": "llama", "max_position_embeddings": 131072}, HERMES),
    "llama-8b": ({"model_type": "llama", "max_position_embeddings": 131072}, "<|python_tag|>"),
    "gpt-oss-20b": ({"model_type": "gpt_oss", "max_position_embeddings": 131072}, "{{ tools }}"),
    "nameless": ({"model_type": "nameless"}, "{{ tools }}"),
}
_EIGHT = {"data_parallel": 4, "tensor_parallel": 2, "args": ["--gpu-memory-utilization", 0.92]}
CASES: Mapping[str, tuple[str, ServingParams]] = {
    **{
        f"the paper's {domain}": (
            "qwen3.5-9b",
            ServingParams(**preset("paper", domain)["serving"]),
        )
        for domain in ("attribution", "rbac_sql", "smart_home")
    },
    "on eight GPUs": (
        "qwen3.5-9b",
        ServingParams(backend="vllm", concurrency=128, context=65536, options=_EIGHT),
    ),
    "the template's own parameters": (
        "smollm2-135m",
        parse("serving: {backend: vllm, context: 16384}", "x").serving,
    ),
    "JSON between tags": ("hermes-8b", ServingParams(backend="vllm")),
    "by the model's type": ("llama-8b", ServingParams(backend="vllm")),
    "always thinking": ("gpt-oss-20b", ServingParams(backend="vllm")),
    "parsers by name": (
        "nameless",
        ServingParams(
            backend="vllm",
            options={"tool_parser": "pythonic", "reasoning_parser": "deepseek_r1"},
        ),
    ),
}


def write_model(folder: Path, name: str) -> Path:
    """What the command line depends on in a checkpoint."""
    config, template = MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(template)
    return folder


def line(folder: Path, params: ServingParams) -> list[str]:
    options = checked(VllmOptions, params.options)
    shape = family(folder, options.tool_parser, options.reasoning_parser)
    return command("vllm", folder, "coevo-0123456789ab", 8000, params, options, shape)
