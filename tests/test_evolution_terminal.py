"""Self-evolution on terminal tasks: shells, hidden graders, and a journal of many megabytes."""

from __future__ import annotations

import json

import pytest
from evolution_runs import TRUNCATE, evolving_run, iterate, note, rule
from runs import RunRepository

STAGE = {
    "families": ["files", "haystack"], "per_family": 1, "iterations": 2, "budget": [40, 20],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """One iteration, which adds truncation."""
    rules = [rule("at most 40 lines", do=[TRUNCATE, note("Cut long outputs.")])]
    base = tmp_path_factory.mktemp("terminal")
    made = evolving_run(
        base,
        rules,
        domain="terminal",
        rounds=2,
        splits={"train": 12, "validation": 6, "test": 8},
        evolution={"stages": [STAGE]},
    )
    options = {"log": str(made.log), "proposer": str(base / "rules.json")}
    made.set_params(
        serving={"backend": "evolving:OracleServer", "concurrency": 2, "options": options}
    )
    iterate(made)
    return made


def test_an_output_of_megabytes_ends_the_seed_s_episode_and_truncation_mends_it(
    run: RunRepository,
) -> None:
    outcome = json.loads(run.ok("git", "show", "evo/pair/r000-seed:outcome.json"))
    assert outcome["ends"] == {"answered": 1, "context_overflow": 1}
    [task] = [task for task, scores in outcome["by_task"].items() if scores == [0.0]]
    failed = run.run("coevo", "solves", "harness/r000-seed", task, "--json")
    assert failed.returncode == 1 and json.loads(failed.stdout)["end"] == "context_overflow"
    solved = json.loads(run.ok("coevo", "solves", "harness/r001-k1", task, "--json"))
    assert solved["solves"] and solved["score"] == 1.0
    after = json.loads(run.ok("git", "show", "evo/pair/r001-k1-a:outcome.json"))
    assert after["score"] == 1.0 and after["ends"] == {"answered": 2}


def test_the_trials_hold_what_the_grader_said(run: RunRepository) -> None:
    run.ok("coevo", "stage", "open")
    run.ok("coevo", "stage", "observe")
    trials = run.folder / ".coevo" / "evolution" / "evo" / "r002" / "k1" / "trials"
    names = {path.name.partition("-")[0] for path in trials.iterdir()}
    assert names == {"files", "haystack", "previous_update"}
    [haystack] = trials.glob("haystack-*")
    assert '"score": 1.0' in (haystack / "result.json").read_text()
    assert "question 1: right" in (haystack / "grader.txt").read_text()
    assert "facts" not in (haystack / "grader.txt").read_text()
    text = (haystack / "trajectory.jsonl").read_text()
    assert "[cut]" in text and len(text) < 64 * 2**20


def test_no_grader_and_no_reference_is_among_the_evidence(run: RunRepository) -> None:
    trials = run.folder / ".coevo" / "evolution" / "evo" / "r002" / "k1"
    files = [path for path in trials.rglob("*") if path.is_file()]
    splits = (run.folder / ".coevo" / "splits" / "evo" / "train.jsonl").read_text()
    keys = [json.loads(line)["private"]["key"] for line in splits.splitlines()[1:]]
    assert files and not [
        path for path in files for key in keys if key in path.read_text("utf-8", "replace")
    ]
    assert not list(trials.rglob("grade.py"))
