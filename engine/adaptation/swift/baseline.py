"""A baseline's folder: all that ms-swift needs to train with RL under the initial harness."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from engine.adaptation.swift import grpo
from engine.adaptation.swift.command import script
from engine.domains import Task
from engine.errors import DataError
from engine.records import write_bytes

_PLUGIN = '''"""Makes the kernel known to ms-swift: episodes of the harness beside this file."""

import sys
from pathlib import Path

sys.path.insert(0, {source!r})
from engine.adaptation.swift.environment import register  # noqa: E402

register(Path(__file__).parent)
'''


def write(
    place: grpo.Place,
    method: str,
    program: str,
    tasks: Sequence[Task],
    harness: Mapping[str, bytes],
    params: str,
    settings: grpo.Settings,
) -> None:
    """Everything of one baseline in ``place.folder``. Labels lie in ``private.jsonl`` there: keep
    the folder out of git. Raises DataError where something is there already."""
    folder = place.folder
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder}: not empty; name a new folder with --out")
    shown = [
        {"messages": [{"role": "user", "content": task.instruction}], "task": number}
        for number, task in enumerate(tasks)
    ]
    server, training = grpo.variables(settings)
    source = str(Path(__file__).resolve().parents[3])
    texts = {
        "tasks.jsonl": _lines(shown),
        "private.jsonl": _lines([asdict(task) for task in tasks]),
        "params.yaml": params,
        "plugin.py": _PLUGIN.format(source=source),
        "rollout.sh": script(grpo.rollout(program, place, settings), server),
        "train.sh": script(grpo.train(program, method, place, settings), training),
        "baseline.json": json.dumps(
            {"method": method, "prompts": len(tasks), "settings": asdict(settings)}, indent=2
        ),
        ".gitignore": "*\n",
    }
    try:
        for name, text in texts.items():
            write_bytes(folder / name, text.encode())
        for name, data in harness.items():
            write_bytes(folder / "harness" / name, data)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _lines(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
