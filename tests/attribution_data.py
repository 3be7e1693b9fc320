"""Where the files of Who&When and TracerTraj are, and tiny ones in their forms."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[1]
REAL = Path(os.environ.get("COEVO_DATA", _ROOT.parent / "shared" / "data"))
WHO, TRACER = REAL / "who_and_when", REAL / "tracertraj_code"

needs_who = pytest.mark.skipif(
    not (WHO / "Hand-Crafted").is_dir(),
    reason=f"no Who&When in {REAL}; set COEVO_DATA to the folder with who_and_when/",
)
needs_both = pytest.mark.skipif(
    not (WHO / "Hand-Crafted").is_dir() or not list(TRACER.glob("tracertraj*.jsonl")),
    reason=f"no Who&When and TracerTraj in {REAL}; set COEVO_DATA to the folder with both",
)


def raw(subset: str) -> dict[str, dict[str, Any]]:
    """The rows of a subset by id, read without the loader."""
    if subset == "TracerTraj-Code":
        text = "".join(path.read_text() for path in TRACER.glob("tracertraj*.jsonl"))
        found = [json.loads(line) for line in text.splitlines()]
        return {row["question_ID"]: row for row in found}
    paths = (WHO / subset).glob("*.json")
    return {f"{subset}/{path.stem}": json.loads(path.read_text()) for path in paths}


def hand(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A Hand-Crafted row: agents stand in ``role``."""
    roles = ["human", "Orchestrator (thought)", "Orchestrator (-> Surfer)", "Surfer", "Surfer"]
    return {
        "question": f"Hand question {number}?",
        "question_ID": f"q{number}",
        "ground_truth": "42",
        "history": [{"content": f"text {n} of {number}", "role": r} for n, r in enumerate(roles)],
        "mistake_agent": "Surfer",
        "mistake_step": "3",
        "mistake_reason": "because",
        **fields,
    }


def algorithm(number: int = 1, **fields: Any) -> dict[str, Any]:
    """An Algorithm-Generated row: agents stand in ``name``."""
    names = ["Data_Expert", "Computer_terminal", "Data_Expert", "Check_Expert"]
    return {
        "question": f"Algorithm question {number}?",
        "ground_truth": "42",
        "history": [
            {"content": f"text {n} of {number}", "name": name, "role": "user"}
            for n, name in enumerate(names)
        ],
        "mistake_agent": "Data_Expert",
        "mistake_step": "2",
        "level": 1,
        **fields,
    }


def tracer(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A TracerTraj row: steps bear their number, names have spaces."""
    names = ["Team Leader", "Product Manager", "Engineer", "Engineer"]
    return {
        "question_ID": f"Code_{number}_I",
        "question": f"Write program {number}.",
        "ground_truth": "def f(): ...",
        "history": [
            {"content": f"text {n} of {number}", "name": name, "role": "assistant", "step": str(n)}
            for n, name in enumerate(names)
        ],
        "mistake_agent": "Product Manager",
        "mistake_step": "1",
        **fields,
    }


def folder(
    path: Path,
    hands: Mapping[int, Any] | None = None,
    algorithms: Mapping[int, Any] | None = None,
    tracers: Iterable[Any] = (),
) -> Path:
    """A data folder with these rows, in the published layout."""
    path.mkdir(parents=True, exist_ok=True)
    for name, rows in (("Hand-Crafted", hands), ("Algorithm-Generated", algorithms)):
        for number, row in (rows or {}).items():
            (path / name).mkdir(exist_ok=True)
            (path / name / f"{number}.json").write_text(json.dumps(row))
    if tracers:
        write_rows(path / "tracertraj-code.jsonl", tracers)
    return path


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
