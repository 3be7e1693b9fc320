"""A whole round of text-to-SQL by `dvc repro`: scripted model and trainer, all else is real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rbac_sql_data import REAL, needs_real
from runs import RunRepository


def after_a_round(base: Path, **params: Any) -> RunRepository:
    made = RunRepository(base, domain="rbac_sql", rounds=1, offspring=2, data=None)
    made.set_params(
        splits={"train": 12, "validation": 12, "test": 4},
        serving={"backend": "rbac_sql_scripted:SolvingServer", "concurrency": 4},
        **params,
    )
    made.ok("dvc", "repro")
    return made


def pairs(run: RunRepository) -> list[dict[str, Any]]:
    """The measured outcomes in the archive."""
    refs = [name for name in run.refs() if "/evo/pair/" in name]
    return [json.loads(run.ok("git", "show", f"{name}:outcome.json")) for name in refs]


@pytest.mark.parametrize("source", ["generated", pytest.param("real", marks=needs_real)])
def test_a_round_ends_with_every_figure_measured(tmp_path: Path, source: str) -> None:
    run = after_a_round(tmp_path, **({"data": str(REAL)} if source == "real" else {}))
    assert run.round() == 1
    run.sound()
    measured = [pair["metrics"] for pair in pairs(run)]
    assert len(measured) >= 3  # the seed's, an offspring's, the adapted one
    for metrics in measured:
        assert metrics["llm_rate"] + metrics["rule_rate"] == pytest.approx(1.0)
        assert {"safe_ex", "ac_f1", "safe_deny", "violation_rate", "over_refusal_rate"} <= set(
            metrics
        )
    history = run.ok("git", "log", "-p", "evo/evolution")
    assert "gold_sql" not in history and "sqlite" not in history
