"""What `coevo init --preset self-evolve` starts with: the second paper's sizes, and small ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]

INPUT_TOKENS, OUTPUT_TOKENS = 258_400, 65_536
"""The paper's limits on one request (§4.1)."""

_NEW_FAMILY = "service"
"""The terminal family that stage two goes on with, as the paper does with Claw-Eval."""

_PAPER: Values = {
    "mode": "self",
    "rounds": 7,
    "model": {"seed": "Qwen/Qwen3.5-9B"},
    "serving": {
        "backend": "vllm",
        "concurrency": 32,
        "context": INPUT_TOKENS + OUTPUT_TOKENS,
        "timeout_s": 1800.0,
    },
    "sampling": {"temperature": 1.0, "top_p": 0.95, "top_k": 20, "max_tokens": OUTPUT_TOKENS},
    "limits": {"wall_s": 1800.0, "cpu_s": 900, "memory_mb": 2048, "processes": 64},
    "splits": {"train": 6 * 80, "validation": 6 * 20, "test": 8 * 50},
    "evolution": {
        "stages": [
            {"per_family": 12, "iterations": 5, "budget": [500, 100]},
            {
                "families": [_NEW_FAMILY],
                "per_family": 40,
                "anchors": 20,
                "iterations": 2,
                "budget": [200, 100],
            },
        ],
    },
}
_SMALL: Values = {
    "mode": "self",
    "rounds": 5,
    "serving": {"context": 8192},
    "sampling": {"max_tokens": 512},
    "splits": {"train": 6 * 6, "validation": 12, "test": 16},
    "evolution": {
        "stages": [
            {"per_family": 2, "iterations": 3, "budget": [200, 50]},
            {
                "families": [_NEW_FAMILY],
                "per_family": 3,
                "anchors": 3,
                "iterations": 2,
                "budget": [80, 40],
            },
        ],
        "session": {"turns": 60, "wall_s": 900.0},
    },
}
PRESETS: Mapping[str, Values] = {"self-evolve": _PAPER, "self-evolve-small": _SMALL}


def values(name: str, domain: str) -> Values:
    """A preset's values. A domain other than ``terminal`` is one family, or its own ones: it has
    the first stage alone, with the same number of tasks a batch."""
    chosen = PRESETS[name]
    if domain == "terminal":
        return chosen
    stages = chosen["evolution"]["stages"]
    first = {**stages[0], "per_family": 5 * stages[0]["per_family"]}
    return {
        **chosen,
        "rounds": first["iterations"],
        "splits": {**chosen["splits"], "train": first["per_family"] * first["iterations"]},
        "evolution": {**chosen["evolution"], "stages": [first]},
    }
