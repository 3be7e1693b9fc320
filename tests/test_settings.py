"""Outcomes are compared within one setting only: parameters may change between rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runs import RunRepository

from engine.evaluation.keys import Setting, changed
from kernel.contract import Limits, Sampling


def outcome(run: RunRepository, pair: str) -> dict[str, Any]:
    return dict(json.loads(run.ok("git", "show", f"{pair}:outcome.json")))


def test_a_setting_names_what_changed() -> None:
    before = Setting("validation", Sampling(), Limits(turns=20), "embedded", "smart_home", "k1")
    after = Setting("validation", Sampling(0.5), Limits(turns=10), "vllm", "smart_home", "k2")
    assert changed(before.recorded(1, 0), before.recorded(1, 0)) == []
    assert changed(before.recorded(1, 0), after.recorded(2, 7)) == [
        "backend", "executions", "kernel", "limits.turns", "sampling.temperature", "seed",
    ]  # fmt: skip
    assert changed({}, {"kernel": "k1"}) == ["kernel"], "an outcome without one is another's"


def test_after_a_change_the_incumbent_is_measured_anew_and_the_round_compares_with_that(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    title = run.ok("git", "log", "-1", "--format=%(trailers:key=Coevo-Incumbent,valueonly)",
                   "evo/evolution").strip()  # fmt: skip
    run.set_params(limits={"turns": 7})
    for stage in ("open", "observe", "curate", "edit", "inherit"):
        said = run.run("coevo", "stage", stage)
        assert said.returncode == 0, said.stderr
        if stage == "observe":
            assert "limits.turns changed: the incumbent is measured anew" in said.stderr
    again = run.ok("git", "rev-parse", "evo/pair/r002-incumbent").strip()
    assert run.ok("git", "log", "-1", "--format=%P", again) == run.ok(
        "git", "log", "-1", "--format=%P", title
    )
    assert outcome(run, title)["setting"]["limits.turns"] == 20
    assert outcome(run, again)["setting"]["limits.turns"] == 7
    run.set_params(limits={"turns": 6})
    assert "limits.turns" in run.fails("coevo", "stage", "promote", code=2)
    run.set_params(limits={"turns": 7})
    for stage in ("adapt", "promote"):
        run.ok("coevo", "stage", stage)
    whole = json.loads(run.ok("git", "show", "evo/evolution:round.json"))
    assert whole["open"]["incumbent"] == title and whole["promotion"]["incumbent"] == again
    candidates = [c["pair"] for c in whole["candidates"]["candidates"] if c["pair"]]
    assert candidates and all(
        outcome(run, pair)["setting"]["limits.turns"] == 7 for pair in candidates
    )
    run.sound()
