"""A small scripted round of each method that a preset plays: what it tries, measures and trains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from runs import TESTS, RunRepository
from session_runs import needs_sandbox, scripted_by_plan, told

from engine.archive_view import FixedView
from engine.context import open_context
from engine.editors import mechanisms
from engine.llm.scripted import ScriptedEndpoint
from engine.observer import Silent
from engine.params import load
from engine.presets import COMPARED, merged, preset

KEY = "sk-canary-5eed0fbead"
SIZES = {
    "rounds": 2,
    "offspring": 2,
    "splits": {"train": 8, "validation": 6, "test": 4},
    "inheritance": {"preliminary": 2, "shortlist": 3, "merger": "scripted:merge"},
    "adaptation": {"trainer": "scripted:train", "tasks": 6, "samples": 2},
}
PAGES = Path(__file__).parents[1] / "docs" / "presets"


def started(base: Path, name: str, **over: Any) -> RunRepository:
    """A run with the preset's values, and small sizes laid over them."""
    run = RunRepository(base / "run")
    run.set_params(**merged(merged(preset(name, "smart_home"), SIZES), over))
    return run


def whole(run: RunRepository, number: int = 1) -> Mapping[str, Any]:
    ref = run.ok("git", "rev-parse", f"evo/evolution~{run.round() - number}").strip()
    found: Mapping[str, Any] = json.loads(run.ok("git", "show", f"{ref}:round.json"))
    return found


def pairs(run: RunRepository) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run.ok("coevo", "pairs", "--json"))
    return found


def outcome(run: RunRepository, pair: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(run.ok("git", "show", f"{pair}:outcome.json"))
    return found


def test_meta_harness_builds_on_the_whole_archive_with_frozen_weights(tmp_path: Path) -> None:
    """An outside coding agent by a command, in the place of Codex."""
    needs_sandbox()
    plan = tmp_path / "run-plan.json"
    replan_to = {"k1": ["good"], "k2": ["good"]}
    agent = {"kind": "command", "command": ["python3", str(TESTS / "session_agent.py"), str(plan)]}
    plan.write_text(json.dumps(replan_to))
    run = started(tmp_path, "meta-harness", editors={**agent, "disk_mb": 16})
    run.ok("dvc", "repro")
    from_seed = ["from_seed", "edit", "declare_seed", "report"]
    plan.write_text(json.dumps({"k1": from_seed, "k2": ["good"]}))
    run.ok("dvc", "repro")
    assert {p["checkpoint_name"] for p in pairs(run)} == {"r000-seed"}
    assert all(outcome(run, p["pair"])["executions"] == 2 for p in pairs(run))
    assert whole(run, 2)["adapted"]["pair"] is None
    seed = run.ok("git", "rev-parse", "evo/harness/r000-seed").strip()
    first = next(o for o in whole(run, 2)["offspring"]["offspring"] if o["slot"] == "k1")
    assert first["status"] == "valid" and first["base"] == seed


def test_self_harness_shows_its_proposers_the_current_harness_alone(tmp_path: Path) -> None:
    needs_sandbox()
    plan = tmp_path / "run-plan.json"
    script = scripted_by_plan("run", "command", plan)
    with ScriptedEndpoint(script, key=KEY, models=["scripted"]) as server:
        mounts = [str(TESTS / "session_agent.py"), str(plan)]
        run = started(
            tmp_path,
            "self-harness",
            editors={"mounts": mounts},
            llm={"base_url": server.url, "model": "scripted", "api_key_env": "LLM_KEY"},
        )
        plan.write_text(json.dumps({"k1": ["good"], "k2": ["good"]}))
        done = told(run, ["dvc", "repro"], LLM_KEY=KEY)
        assert done.returncode == 0, done.stderr
    made = whole(run)
    assert all(outcome(run, p["pair"])["executions"] == 2 for p in pairs(run))
    assert {o["editor"] for o in made["offspring"]["offspring"]} == {"chat"}
    assert {p["checkpoint_name"] for p in pairs(run)} == {"r000-seed"}
    assert made["adapted"]["pair"] is None
    context = open_context(run.folder, load(run.folder / "params.yaml"), Silent())
    incumbent = context.archive.pair(made["open"]["incumbent"]).harness
    view = FixedView(context, 2, mechanisms, only=context.generation())
    assert [entry.oid for entry in view.index()] == [incumbent]
    assert len(context.archive.harnesses()) == 3


def test_harness_forge_takes_the_policy_of_the_parent_s_branch(tmp_path: Path) -> None:
    run = started(tmp_path, "harness-forge")
    run.ok("dvc", "repro")
    made = whole(run)
    [seed] = [p for p in pairs(run) if p["name"] == "r000-seed"]
    tried = made["candidates"]["candidates"]
    assert [c["slot"] for c in tried] == ["k1", "k2"], "one policy for each harness"
    for each in tried:
        assert each["alpha"] == {seed["checkpoint"]: 1.0}
        assert each["why"] == "the policy of the parent's branch"
    assert made["adapted"]["pair"], "the best pair's policy is trained"


@pytest.mark.parametrize("name", COMPARED)
def test_each_has_a_page_that_says_what_is_left_out(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text("utf-8")
    for heading in ("## What it copies", "## What it leaves out", "## Running it"):
        assert heading in page
    assert f"--preset {name}" in page
