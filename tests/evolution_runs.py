"""Run repositories in which a harness evolves itself, and what the scripted proposer does there."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import scripted
from evolving import CUT, WHOLE
from runs import RunRepository

from engine.observer import Silent
from engine.round import STAGES, run_stage

HARNESS = "/app/harness_workspace/harness.py"
NOTES = "/app/harness_workspace/evolve_notes.md"
STAGE_ONE = {"per_family": 1, "iterations": 5, "budget": [500, 100]}
STAGE_TWO = {
    "families": ["dialogue"], "per_family": 2, "anchors": 5, "iterations": 2, "budget": [200, 100],
}  # fmt: skip

TRUNCATE = (
    f"python3 - <<'END'\nimport pathlib\np = pathlib.Path('{HARNESS}')\ntext = p.read_text()\n"
    f"assert {WHOLE!r} in text\np.write_text(text.replace({WHOLE!r}, {CUT!r}))\nEND"
)
"""Output truncation, as an edit of the seed harness."""


def note(text: str) -> str:
    return f"printf '%s\\n' '- {text}' >> {NOTES}"


def comment(text: str, times: int = 1) -> str:
    return f"for i in $(seq {times}); do echo '# {text}' >> {HARNESS}; done"


def rule(*match: str, do: Sequence[str], without: Sequence[str] = ()) -> Mapping[str, Any]:
    return {"match": list(match), "without": list(without), "commands": list(do)}


@functools.cache
def blank() -> RunRepository:
    """A run repository that the others are copies of: making one takes longer than most tests."""
    folder = Path(tempfile.mkdtemp(prefix="coevo-blank-"))
    atexit.register(shutil.rmtree, folder, True)
    made = RunRepository(folder / "base")
    secret = made.folder / ".coevo" / "secret"
    secret.parent.mkdir(exist_ok=True)
    secret.write_bytes(bytes(range(32)))
    return made


def evolving_run(
    base: Path, rules: Sequence[Mapping[str, Any]] = (), **params: Any
) -> RunRepository:
    """Before round 0: the two-stage schedule with one task a family and batch."""
    base.mkdir(parents=True, exist_ok=True)
    checkpoint = scripted.write_checkpoint(base / "frozen", 0.5, mark="frozen")
    proposer = base / "rules.json"
    proposer.write_text(json.dumps(list(rules)))
    run = blank().copied(base / "base")
    serving = {
        "backend": "evolving:EvolvingServer",
        "concurrency": 4,
        "options": {"log": str(run.log), "proposer": str(proposer)},
    }
    run.set_params(
        domain="evolving:DOMAIN",
        data=None,
        mode="self",
        rounds=7,
        splits={"train": 48, "validation": 4, "test": 4},
        model={"seed": str(checkpoint)},
        serving=serving,
        inheritance={"preliminary": 2},
        evolution={"stages": [STAGE_ONE, STAGE_TWO], "repairs": 1},
    )
    run.set_params(**params)
    return run


def iterate(run: RunRepository, rounds: int = 1) -> None:
    """Rounds in this process: as `dvc repro`, without its seconds of start-up for each stage."""
    for _ in range(rounds):
        for stage in STAGES:
            run_stage(run.folder, stage, Silent())
