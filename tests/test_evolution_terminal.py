"""Both stages of self-evolution on real terminal families: shells, hidden graders, a journal of
many megabytes, people to talk to; then what a finished run is asked: solves, bisect, evaluate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evolution_runs import HARNESS, TRUNCATE, comment, evolving_run, iterate, note, rule
from evolving import SERVE
from runs import RunRepository

STAGES = [
    {"per_family": 1, "iterations": 2, "budget": [40, 20]},
    {"families": ["service"], "per_family": 1, "anchors": 2, "iterations": 2, "budget": [15, 10]},
]
RULES = [
    rule("at most 40 lines", do=[comment("first"), note("Say little.")]),
    rule("at most 20 lines", do=[TRUNCATE, note("Cut long outputs.")]),
    rule("at most 15 lines", do=[
        f"sed -i 's/closing message that calls no tool/& (first {SERVE})/' {HARNESS}",
        note("Stay with the user."),
    ]),
    rule("at most 10 lines", do=[comment("fourth"), note("Say more.")]),
]  # fmt: skip
FAMILIES = {"files", "repair", "documents", "haystack", "service", "events"}


def terminal_run(base: Path, **params: Any) -> RunRepository:
    """Before round 0: the oracle on terminal tasks."""
    run = evolving_run(
        base,
        RULES,
        domain="terminal",
        rounds=4,
        splits={"train": 12, "validation": 6, "test": 8},
        evolution={"stages": STAGES},
    )
    options = {"log": str(run.log), "proposer": str(base / "rules.json")}
    run.set_params(
        serving={"backend": "evolving:OracleServer", "concurrency": 2, "options": options}
    )
    run.set_params(**params)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """All four iterations."""
    made = terminal_run(tmp_path_factory.mktemp("terminal"))
    iterate(made, 4)
    return made


def outcome(run: RunRepository, pair: str) -> dict[str, Any]:
    return dict(json.loads(run.ok("git", "show", f"evo/pair/{pair}:outcome.json")))


def test_both_stages_run_with_anchors(run: RunRepository) -> None:
    first, third, fourth = (outcome(run, f"r00{n}-k1-a") for n in (1, 2, 3))
    assert (first["tasks"], third["tasks"], fourth["tasks"]) == (5, 3, 3)
    assert third["metrics"]["anchors"] == fourth["metrics"]["anchors"] == 1.0
    assert third["metrics"]["new"] < fourth["metrics"]["new"] == 1.0, "it stays with the user now"
    assert outcome(run, "r004-k1-a")["score"] == 1.0, "on all families of the validation split"


@pytest.fixture(scope="module")
def flooded(run: RunRepository) -> str:
    """The task of the first batch that the seed ended in an overflow."""
    found = outcome(run, "r000-seed")
    assert found["ends"] == {"answered": 4, "context_overflow": 1}
    [task] = [task for task, scores in found["by_task"].items() if scores == [0.0]]
    return str(task)


def test_an_output_of_megabytes_ends_the_seed_s_episode_and_truncation_mends_it(
    run: RunRepository, flooded: str
) -> None:
    for harness in ("harness/r000-seed", "harness/r001-k1"):
        failed = run.run("coevo", "solves", harness, flooded, "--json")
        assert failed.returncode == 1 and json.loads(failed.stdout)["end"] == "context_overflow"
    solved = json.loads(run.ok("coevo", "solves", "harness/r002-k1", flooded, "--json"))
    assert solved["solves"] and solved["score"] == 1.0


def test_git_bisect_finds_the_commit_that_made_the_haystack_passable(
    run: RunRepository, flooded: str
) -> None:
    newest, seed = "evo/harness/r004-k1", "evo/harness/r000-seed"
    run.ok("git", "bisect", "start", "--no-checkout", newest, seed)
    found = run.ok("git", "bisect", "run", "coevo", "solves", "--find-fix", "BISECT_HEAD", flooded)
    run.ok("git", "bisect", "reset")
    second = run.ok("git", "rev-parse", "evo/harness/r002-k1").strip()
    assert f"{second} is the first bad commit" in found


def test_the_seed_and_the_end_of_each_stage_are_evaluated_side_by_side(run: RunRepository) -> None:
    found = json.loads(run.ok("coevo", "evaluate", "--json"))
    assert [v["version"]["label"] for v in found["versions"]] == [
        "seed", "iteration 2", "iteration 4",
    ]  # fmt: skip
    rows = [{row["family"]: row for row in v["report"]["families"]} for v in found["versions"]]
    assert all({f for f, row in each.items() if not row["ood"]} == FAMILIES for each in rows)
    assert {f for f, row in rows[0].items() if row["ood"]} == {"schedule", "forensics"}
    for family in rows[0]:
        scores = [each[family]["score"]["mean"] for each in rows]
        if family == "haystack":
            assert scores == [0, 1, 1]
        elif family == "service":
            assert scores[0] == scores[1] < scores[2] == 1
        else:
            assert scores == [1, 1, 1], family
    assert rows[0]["haystack"]["ends"] == {"context_overflow": 1}
    cut = [each["haystack"]["mechanisms"]["truncation"] for each in rows]
    assert cut == [0, 1, 1]
    seed, stage_one, stage_two = found["versions"]
    assert stage_one["gains"][0]["mean"] == pytest.approx(1 / 6), "one family of six"
    assert stage_two["report"]["in_distribution"]["mean"] == 1
    assert [v["gains"][1] and v["gains"][1]["mean"] for v in found["versions"]] == [None, 0, 0]
    assert [step["added"] for step in found["iterations"]] == [0, 1, 4, 1, 1]
    assert seed["lines"] + 1 + 3 == stage_one["lines"], "four lines for one"
    text = run.ok("coevo", "evaluate", "--markdown")
    [head] = [line for line in text.splitlines() if line.startswith("| family |")]
    assert head == "| family | tasks | seed | iteration 2 | iteration 4 |"
    for start in ("| haystack | 1x1 | 0.00", "| schedule (ood) | 1x1 |", "| in distribution |",
                  "| out of distribution |", "| haystack, seed | 100% | 0% |"):  # fmt: skip
        assert any(line.startswith(start) for line in text.splitlines()), start


def test_the_trials_hold_what_the_grader_said(run: RunRepository) -> None:
    trials = run.folder / ".coevo" / "evolution" / "evo" / "r004" / "k1" / "trials"
    names = [path.name.partition("-")[0] for path in trials.iterdir()]
    assert len(names) == 4 and {"service", "previous_update"} < set(names)
    [service] = trials.glob("service-*")
    assert '"score": 1.0' in (service / "result.json").read_text()
    assert "right" in (service / "grader.txt").read_text()
    assert "say_to_user" in (service / "trajectory.jsonl").read_text()


def test_no_grader_and_no_reference_is_among_the_evidence(run: RunRepository) -> None:
    trials = run.folder / ".coevo" / "evolution" / "evo" / "r004" / "k1"
    files = [path for path in trials.rglob("*") if path.is_file()]
    splits = (run.folder / ".coevo" / "splits" / "evo" / "train.jsonl").read_text()
    keys = [json.loads(line)["private"]["key"] for line in splits.splitlines()[1:]]
    assert files and not [
        path for path in files for key in keys if key in path.read_text("utf-8", "replace")
    ]
    assert not list(trials.rglob("grade.py"))


def test_an_ordinary_round_takes_terminal_tasks_too(tmp_path: Path) -> None:
    """Harnesses only: an editor's offspring, measured on V, promoted by its gain."""
    run = terminal_run(
        tmp_path,
        mode="harness-only",
        rounds=1,
        offspring=1,
        editors={"kind": "evolving:TRUNCATING"},
        promotion={"margin": 0.0},
    )
    iterate(run)
    whole = json.loads(run.ok("git", "show", "evo/evolution:round.json"))
    assert whole["promotion"]["promoted"] and whole["promotion"]["gain"] == pytest.approx(1 / 6)
    seed, newest = outcome(run, "r000-seed"), outcome(run, "r001-k1-a")
    assert seed["metrics"]["family_haystack"] == 0 and newest["metrics"]["family_haystack"] == 1
    assert newest["ends"] == {"answered": 6}
