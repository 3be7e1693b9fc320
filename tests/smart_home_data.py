"""Where the real HomeBench files are, and a tiny folder in their form."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[1]
REAL = Path(os.environ.get("COEVO_DATA", _ROOT.parent / "shared" / "data")) / "homebench"

needs_real = pytest.mark.skipif(
    not (REAL / "test_sample.jsonl").exists(),
    reason=f"no HomeBench files in {REAL}; set COEVO_DATA to the folder that holds homebench/",
)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def assert_beginnings_are_fair(subsets: Sequence[str]) -> None:
    """Of every prefix each subset has its share of the whole, within two tasks."""
    whole = Counter(subsets)
    for n in range(1, len(subsets) + 1):
        part = Counter(subsets[:n])
        assert all(abs(part[key] - n * count / len(subsets)) < 2 for key, count in whole.items())


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(
    key: str, gold: str, kind: str = "normal", home_id: int = 0, text: str = ""
) -> dict[str, Any]:
    return {
        "id": key,
        "input": text or f"Do {key}.",
        "output": gold,
        "home_id": home_id,
        "type": kind,
    }


def home(home_id: int = 0) -> dict[str, Any]:
    """One home with the format's quirks: spaced names, mixed bounds, a device of no room."""
    return {
        "home_id": home_id,
        "method": [
            _method("ding_room", "light", "turn_on"),
            _method("ding_room", "light", "set_brightness", ("brightness", "int")),
            _method("ding_room", "curtain", "set_degree", ("degree", "int")),
            _method("kitchen", "fan", "set_speed", ("speed", "str")),
            _method("kitchen", "light", "set_color", ("color", "typing.Tuple[int, int, int]")),
            _method("None", "vacuum_robot", "set_mode", ("mode", "str")),
            _method("None", "vacuum_robot", "set_cleaning_area", ("area", "str")),
        ],
        "home_status": {
            "ding_room": {
                "room_name": "ding_room",
                "light": {
                    "state": "on",
                    "attributes": {"brightness": {"value": 57, "lowest": "0", "highest": 100}},
                },
                "curtain": {
                    "state": "open",
                    "attributes": {" degree": {"value": 0, "lowest": 0, "highest": "100"}},
                },
            },
            "kitchen": {
                "room_name": "kitchen",
                "fan": {
                    "state": "off",
                    "attributes": {"speed": {"value": "low", "options": ["auto", "low", "high"]}},
                },
                "light": {"state": "off", "attributes": {"color": {"value": [1, 2, 3]}}},
            },
            "VacuumRobot": {
                "state": "on",
                "attributes": {
                    "battery": {"value": 90, "lowest": 0, "highest": 100},
                    "mode": {"value": "auto", "options": ["auto", "strong", "sleep"]},
                },
            },
        },
    }


def _method(room: str, device: str, operation: str, *parameters: tuple[str, str]) -> dict[str, Any]:
    return {
        "room_name": room,
        "device_name": device,
        "operation": operation,
        "parameters": [{"name": name, "type": kind} for name, kind in parameters],
    }


def folder(
    path: Path,
    test: Sequence[Mapping[str, Any]] | None = None,
    pool: Sequence[Mapping[str, Any]] | None = None,
    homes: Sequence[Mapping[str, Any]] | None = None,
) -> Path:
    """A data folder with home 0, two pool rows and one test row, unless told otherwise."""
    path.mkdir(parents=True, exist_ok=True)
    write_rows(path / "home_status_method.jsonl", [home()] if homes is None else homes)
    gold = "''' ding_room.light.turn_on()'''"
    write_rows(path / "test_sample.jsonl", [row("t1", gold)] if test is None else test)
    rows = [row("p1", gold), row("p2", "'''error_input'''", "unexist_device")]
    write_rows(path / "train_pool.jsonl", rows if pool is None else pool)
    return path
