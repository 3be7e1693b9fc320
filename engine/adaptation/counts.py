"""How many trajectories each method sampled and trained on (paper, table 8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.adaptation.swift.grpo import Settings
from engine.archive import Archive
from engine.errors import DataError


@dataclass(frozen=True)
class Counts:
    """Trajectories of one method. ``planned``: what a whole run of it comes to."""

    method: str
    sampled: int
    trained: int
    planned: int | None = None


def of_run(archive: Archive, name: str) -> Counts:
    """A run's: sampled for training in all rounds, and accepted or replayed ones trained on."""
    made = [c.provenance for c in archive.checkpoints() if c.method == "sft"]
    sampled = sum(int(one["sampled"]) for one in made)
    trained = sum(int(one["accepted"]) + int(one["replayed"]) for one in made)
    return Counts(name, sampled, trained)


def of_baseline(folder: Path) -> Counts:
    """A baseline's: what its rollouts and its training's log say. Raises DataError."""
    try:
        facts = json.loads((folder / "baseline.json").read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        raise DataError(
            f"{folder}: no baseline (baseline.json); `coevo baseline grpo` writes one"
        ) from None
    settings = Settings(**facts["settings"])
    sampled = sum(1 for _ in _rows(folder / "rollouts.jsonl"))
    steps = {str(row["global_step/max_steps"]) for row in _rows(folder / "output/logging.jsonl")
             if "loss" in row}  # fmt: skip
    trained = min(sampled, len(steps) * settings.prompts_per_step * settings.rollouts)
    return Counts(facts["method"], sampled, trained, settings.sampled(facts["prompts"]))


def _rows(path: Path) -> Iterator[dict[str, object]]:
    if path.exists():
        with path.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines if line.endswith("\n"))
