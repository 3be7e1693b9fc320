"""Splits come back from disk as they were frozen."""

from __future__ import annotations

import subprocess
from pathlib import Path

from engine import splits
from engine.domains import Task
from engine.dvc_store import DvcStore
from engine.params import Params


def test_any_text_comes_back_as_it_was_frozen(tmp_path: Path) -> None:
    """Logs of the web are full of marks at which a text's lines end, but not a file's."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    analytics = false\n")
    texts = ["one\u2028two", "three\x85four", "five\x0bsix\r\nseven"]
    parts = {
        name: [Task(f"{name}-{n}", text, {"log": text}, {"gold": n}, f"{name} {text}")]
        for n, (name, text) in enumerate(zip(splits.NAMES, texts, strict=True))
    }
    store, params = DvcStore(tmp_path), Params()
    frozen = splits.freeze(tmp_path, params, splits.Made(parts, "generated"), store)
    for name in splits.NAMES:
        found = splits.load(tmp_path, params.run, name, frozen, store)
        assert found.tasks == parts[name]
