"""vLLM for tests: the fake of ``fake_vllm.py``, or the real one of an environment of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.params import ServingParams

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venv-vllm"


def fake(folder: Path, latency_s: float = 0.0) -> Mapping[str, Any]:
    """Options that name a fake; its diary is ``folder/diary``."""
    diary = folder / "diary"
    diary.mkdir(parents=True, exist_ok=True)
    program = folder / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/fake_vllm.py "$@"\n')
    program.chmod(0o755)
    env = {
        "FAKE_VLLM": str(diary),
        "FAKE_LATENCY": str(latency_s),
        "PYTHONPATH": f"{ROOT}:{ROOT}/tests",
    }
    return {"program": str(program), "env": env}


def real() -> Mapping[str, Any]:
    """Options that name the CPU build which ``make test-vllm`` installs."""
    threads = os.environ.get("OMP_NUM_THREADS", "2")
    args = ["--enforce-eager", "--no-enable-chunked-prefill"]  # docs/SERVING.md says why
    env = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": threads}
    return {"program": f"{ENVIRONMENT}/bin/vllm", "args": args, "env": env}


def params(options: Mapping[str, Any], **others: Any) -> ServingParams:
    return ServingParams(backend="vllm", options=dict(options), **others)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
