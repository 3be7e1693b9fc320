"""The command line of ``vllm serve`` for one checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from engine.params import ServingParams
from engine.serving.families import Family
from engine.serving.prompt import context_length


@dataclass(frozen=True)
class VllmOptions:
    """``serving.options`` of this backend. ``program`` is a ``vllm`` elsewhere, ``port`` 0 takes a
    free one; a parser that isn't named follows from the model. ``args`` are further arguments,
    ``env`` further variables of the server's environment."""

    program: str = "vllm"
    port: int = 0
    tensor_parallel: int = 1
    data_parallel: int = 1
    tool_parser: str = ""
    reasoning_parser: str = ""
    start_s: int = 1800
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


def command(
    program: str,
    checkpoint: Path,
    name: str,
    port: int,
    params: ServingParams,
    options: VllmOptions,
    family: Family,
) -> list[str]:
    """``vllm serve`` of ``checkpoint`` under ``name`` on loopback. Sampling is each request's own
    (``--generation-config vllm``): a checkpoint's defaults would mix into it."""
    parallel = [
        *_over_one("--tensor-parallel-size", options.tensor_parallel),
        *_over_one("--data-parallel-size", options.data_parallel),
    ]
    auto = ["--enable-auto-tool-choice", "--tool-call-parser", family.tools]
    tools = auto if family.tools else []
    switch = json.dumps({"enable_thinking": params.thinking})
    thinking = ["--default-chat-template-kwargs", switch] if params.thinking is not None else []
    reasoning = ["--reasoning-parser", family.reasoning] if family.reasoning else []
    return [
        *(program, "serve", str(checkpoint), "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", str(context_length(checkpoint, params.context))),
        *("--max-num-seqs", str(params.concurrency)),
        *parallel,
        *("--generation-config", "vllm", "--enable-prefix-caching"),
        *tools,
        *reasoning,
        *thinking,
        *(str(part) for part in options.args),
    ]


def _over_one(flag: str, count: int) -> list[str]:
    return [flag, str(count)] if count > 1 else []
