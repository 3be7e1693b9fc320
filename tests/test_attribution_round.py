"""A whole round of failure attribution by `dvc repro`: scripted model and trainer, all else is
real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attribution_data import REAL, needs_both
from runs import RunRepository


def after_a_round(base: Path, **params: Any) -> RunRepository:
    made = RunRepository(base, domain="attribution", rounds=1, offspring=2, data=None)
    made.set_params(
        splits={"train": 12, "validation": 12, "test": 4},
        serving={"backend": "attribution_scripted:SolvingServer", "concurrency": 4},
        **params,
    )
    made.ok("dvc", "repro")
    return made


def pairs(run: RunRepository) -> list[dict[str, Any]]:
    """The measured outcomes in the archive."""
    refs = [name for name in run.refs() if "/evo/pair/" in name]
    return [json.loads(run.ok("git", "show", f"{name}:outcome.json")) for name in refs]


def frozen(run: RunRepository) -> list[dict[str, Any]]:
    """The labelled tasks that stay out of git."""
    paths = list((run.folder / ".coevo" / "splits").rglob("*.jsonl"))
    assert len(paths) == 3
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("source", ["generated", pytest.param("real", marks=needs_both)])
def test_a_round_ends_with_every_figure_measured(tmp_path: Path, source: str) -> None:
    run = after_a_round(tmp_path, **({"data": str(REAL)} if source == "real" else {}))
    assert run.round() == 1
    run.sound()
    measured = [pair["metrics"] for pair in pairs(run)]
    assert len(measured) >= 2  # the seed's and an offspring's or the adapted one's
    for metrics in measured:
        weighed = (3 * metrics["agent_accuracy"] + 7 * metrics["step_accuracy"]) / 10
        assert metrics["score"] == pytest.approx(weighed)
        assert metrics["official_step_accuracy"] >= metrics["step_accuracy"]
    if source == "generated":
        assert max(metrics["step_accuracy"] for metrics in measured) > 0
    history = run.ok("git", "log", "-p", "evo/evolution")
    assert "mistake_" not in history
    for task in frozen(run):
        texts = [text for text in task["private"]["texts"].values() if len(text) > 60]
        for text in (task["instruction"], *texts):
            assert json.dumps(text)[1:-1][:60] not in history
