"""What a start sweeps away: the half-written files of dead processes, and nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.leftovers import sweep

LEFT = [
    ".metrics.json.{}",
    ".plots.json.{}",
    "round/.open.json.{}",
    "round/briefs/.k1.json.{}",
    "checkpoints/.0123456789ab.{}/model.safetensors",
    ".coevo/.secret.{}",
    ".coevo/splits/main/.validation.jsonl.{}",
    ".coevo/datasets/main/.0123456789ab.jsonl.{}",
    ".coevo/rollouts/main/.r001-k2-a.jsonl.{}",
]
KEPT = [
    ".env.{}",
    ".notes.json.{}",
    "metrics.json.{}",
    ".metrics.json.{}.bak",
    "data/.metrics.json.{}",
    "round/.draft.txt.{}",
    "checkpoints/.mine.{}/model.safetensors",
    ".coevo/.metrics.json.{}",
]


def put(root: Path, names: list[str], pid: int) -> list[Path]:
    paths = [root / name.format(pid) for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    return paths


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_half_files_of_dead_processes_go_and_users_files_stay(tmp_path: Path, dead: int):
    left, kept = put(tmp_path, LEFT, dead), put(tmp_path, KEPT, dead)
    assert sweep(tmp_path) == len(LEFT)
    assert [path for path in left if path.exists()] == []
    assert [path for path in kept if not path.exists()] == []


def test_half_files_of_a_live_process_stay(tmp_path: Path):
    left = put(tmp_path, LEFT, os.getpid())
    assert sweep(tmp_path) == 0
    assert all(path.exists() for path in left)
