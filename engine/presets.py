"""Starting values of ``params.yaml``: small ones for two CPU cores, and the papers'.

The paper's are its appendix A: ten rounds, eight editors, a 9B model on vLLM, the splits of its
tables 5-7 and the limits of its table 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import ConfigError
from engine.self_evolution import presets as self_evolution

COMPARED = ("meta-harness", "self-harness", "harness-forge")
"""Other methods, as far as this engine can play them; docs/presets/ says how far."""

NAMES = ("small", "paper", *self_evolution.PRESETS, *COMPARED)

Values = Mapping[str, Any]

SMALL: Mapping[str, Values] = {
    "smart_home": {},
    "attribution": {
        "offspring": 2,
        "splits": {"train": 48, "validation": 12, "test": 24},
        "serving": {"context": 2048},
        "sampling": {"max_tokens": 128},
        "inheritance": {"preliminary": 6},
        "adaptation": {"tasks": 12, "max_length": 2048, "sampling": {"max_tokens": 128}},
    },
    "rbac_sql": {
        "offspring": 2,
        "splits": {"train": 160, "validation": 24, "test": 80},
        "serving": {"context": 2048},
        "inheritance": {"preliminary": 8},
        "adaptation": {"tasks": 24, "max_length": 2048},
    },
}

_TWICE: Values = {"mode": "harness-only", "rounds": 10, "offspring": 8, "executions": 2}
OTHERS: Mapping[str, Values] = {
    "meta-harness": {**_TWICE, "editors": {"kind": "codex", "line_budget": None}},
    "self-harness": {
        **_TWICE,
        "editors": {"kind": "chat", "bases": "incumbent", "line_budget": None},
        "promotion": {"margin": 0.0},
    },
    "harness-forge": {
        "rounds": 10,
        "inheritance": {"kind": "parent-branch", "proposals": 1, "merges": 0},
        "adaptation": {"replay": False, "lora": {"rank": 8, "alpha": 32}},
    },
}
"""The first paper's "Baseline configurations" (eight candidates, each measured twice on V, frozen
weights) and its table 10 (HarnessForge: the policy of the parent's branch)."""

_DRAWN = {"temperature": 1.0, "top_p": 0.95, "top_k": 20}
_COMMON: Values = {
    "rounds": 10,
    "offspring": 8,
    "model": {"seed": "Qwen/Qwen3.5-9B"},
    "serving": {
        "backend": "vllm",
        "concurrency": 64,
        "thinking": True,
        "options": {"data_parallel": 4},
    },
    "llm": {
        "model": "deepseek-v4.1-flash",
        "reasoning_effort": "high",
        "api": "responses",
        "base_url": None,
        "api_key_env": "DEEPSEEK_API_KEY",
    },
    "curator": {"kind": "llm"},
    "editors": {"kind": "codex"},
    "inheritance": {"kind": "llm", "shortlist": 8},
    "adaptation": {
        "trainer": "swift",
        "samples": 3,
        "learning_rate": 5.0e-6,
        "batch_size": 8,
        "options": {"devices": 4, "deepspeed": "zero3"},
    },
}
PAPER: Mapping[str, Values] = {
    "attribution": {
        "splits": {"train": 3400, "validation": 200, "test": 184},
        "tokens": 8192,
        "context": 65536,
        "turns": 20,
        "max_length": 65536,
        "sequence_parallel": 2,
    },
    "rbac_sql": {
        "splits": {"train": 8000, "validation": 2000, "test": 6926},
        "tokens": 4096,
        "context": 32768,
        "turns": 10,
        "max_length": 8192,
        "sequence_parallel": 1,
    },
    "smart_home": {
        "splits": {"train": 10000, "validation": 2000, "test": 342},
        "tokens": 8192,
        "context": 65536,
        "turns": 20,
        "max_length": 65536,
        "sequence_parallel": 2,
    },
}


def preset(name: str, domain: str) -> Values:
    """What the preset ``name`` changes in the template for ``domain``; a domain from outside
    takes the small template as it is. Raises ConfigError where there is no such preset."""
    if name == "small":
        return SMALL.get(domain, {})
    if name in self_evolution.PRESETS:
        return self_evolution.values(name, domain)
    if name in OTHERS:
        return merged(SMALL.get(domain, {}), OTHERS[name])
    if name != "paper":
        raise ConfigError(f"no preset is called {name!r}; known: {', '.join(NAMES)}")
    if domain not in PAPER:
        known = ", ".join(PAPER)
        raise ConfigError(f"the paper measures nothing on {domain!r}; its domains: {known}")
    paper = PAPER[domain]
    sampling = {**_DRAWN, "max_tokens": paper["tokens"]}
    own = {
        "splits": paper["splits"],
        "serving": {"context": paper["context"]},
        "sampling": sampling,
        "limits": {"turns": paper["turns"], "wall_s": 3600.0},
        "adaptation": {
            "tasks": paper["splits"]["train"],
            "max_length": paper["max_length"],
            "sampling": sampling,
            "options": {"sequence_parallel": paper["sequence_parallel"]},
        },
    }
    return merged(_COMMON, own)


def default_domain(name: str) -> str:
    """The domain that a preset is for where none is named."""
    return "terminal" if name in self_evolution.PRESETS else "smart_home"


def merged(values: Values, over: Values) -> dict[str, Any]:
    """``values`` with ``over`` laid on top, section by section."""
    return {**values, **{key: _laid(values.get(key), value) for key, value in over.items()}}


def _laid(below: Any, value: Any) -> Any:
    if isinstance(below, Mapping) and isinstance(value, Mapping):
        return merged(below, value)
    return value
