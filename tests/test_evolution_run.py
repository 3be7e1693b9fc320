"""The whole two-stage schedule, offline: the scripted model solves and proposes, the edits are real
code edits made with the harness's own bash tool in a real sandbox."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from evolution_runs import (
    HARNESS,
    NOTES,
    TRUNCATE,
    comment,
    evolving_run,
    iterate,
    note,
    rule,
)
from runs import RunRepository

RULES = [
    rule("does not pass the checks", "at most 441 lines", do=[
        f"grep -v padding {HARNESS} > /tmp/mended && cp /tmp/mended {HARNESS}",
        comment("mended"), note("Mended it."),
    ]),
    rule("does not pass the checks", do=["true"]),
    rule("at most 500 lines", do=[TRUNCATE, note("Cut long outputs.")]),
    rule("at most 441 lines", do=[comment("padding", 450), note("Add many lines.")]),
    rule("at most 300 lines", do=[f"echo 'raise RuntimeError(1)' >> {HARNESS}", note("Break.")]),
    rule("at most 159 lines", do=[
        comment("fourth"), note("Go on after the broken one."),
        f"grep -h check /app/eval_trials/previous_update/*/result.json >> {NOTES}",
    ]),
    rule("at most 100 lines", "Begin stage two", do=[
        comment("seventh"), note("End here."), f"ls /app/eval_trials >> {NOTES}",
    ]),
    rule("at most 100 lines", do=[comment("fifth"), note("End stage one.")]),
    rule("at most 200 lines", do=[
        comment("sixth"), note("Begin stage two."), "echo seen > /logs/agent/remark.md",
        f"ls /app/eval_trials >> {NOTES}",
    ]),
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """All seven iterations."""
    made = evolving_run(tmp_path_factory.mktemp("evolution"), RULES)
    iterate(made, 7)
    return made


def git(run: RunRepository, *arguments: str) -> str:
    return run.ok("git", *arguments)


def steps(run: RunRepository) -> list[dict[str, Any]]:
    return list(json.loads(run.ok("coevo", "log", "--json")))


def outcome(run: RunRepository, number: int) -> dict[str, Any]:
    """Of round ``number``'s incumbent."""
    commit = git(run, "log", "-1", "--format=%(trailers:key=Coevo-Incumbent,valueonly)",
                 f"evo/evolution~{7 - number}").strip()  # fmt: skip
    return dict(json.loads(git(run, "show", f"{commit}:outcome.json")))


def test_budgets_follow_the_schedule_and_hold(run: RunRepository) -> None:
    rows = steps(run)
    assert [row["budget"] for row in rows] == [None, 500, 441, 300, 159, 100, 200, 100]
    assert all(row["added"] <= row["budget"] for row in rows[1:] if row["accepted"])
    key = "--format=%(trailers:key=Coevo-Line-Budget,valueonly)"
    assert git(run, "log", "-1", key, "evo/harness/r006-k1").strip() == "200"


def test_no_task_of_a_batch_comes_again_but_as_an_anchor(run: RunRepository) -> None:
    batches = [outcome(run, number) for number in range(7)]
    assert [batch["split"] for batch in batches] == [f"batch-00{n}" for n in range(1, 8)]
    tasks = [set(batch["by_task"]) for batch in batches]
    stage_one: set[str] = set()
    for own in tasks[:5]:
        assert len(own) == 5 and not own & stage_one, "five families, one new task each"
        stage_one |= own
    solved = {task for batch in batches[:5] for task, s in batch["by_task"].items() if min(s) == 1}
    new: set[str] = set()
    for own in tasks[5:]:
        assert len(own) == 7, "two new ones, and an anchor of each old family"
        assert len(own & stage_one) == 5 and own & stage_one <= solved
        assert not (own - stage_one) & new
        new |= own - stage_one
    assert outcome(run, 7)["split"] == "validation", (
        "the last harness is measured on held-out tasks"
    )


def test_anchors_are_reported_apart(run: RunRepository) -> None:
    for number in (5, 6):
        metrics = outcome(run, number)["metrics"]
        assert (metrics["new"], metrics["anchors"]) == (1.0, 1.0)
    assert "new" not in outcome(run, 4)["metrics"]
    assert "(new 1.000, anchors 1.000)" in run.ok("coevo", "log")


def test_truncation_is_an_edit_of_the_first_iteration(run: RunRepository) -> None:
    seed, first = outcome(run, 0), outcome(run, 1)
    assert seed["ends"] == {"answered": 4, "context_overflow": 1}
    assert first["ends"] == {"answered": 5} and first["score"] == 1.0
    diff = run.ok("coevo", "diff", "harness/r000-seed", "harness/r001-k1")
    assert "+    return text[:2000]" in diff


def test_a_repair_session_mends_what_a_check_refused(run: RunRepository) -> None:
    whole = json.loads(git(run, "show", "evo/evolution~5:round.json"))
    [offspring] = whole["offspring"]["offspring"]
    assert offspring["status"] == "valid" and offspring["repaired"]
    [remark] = offspring["remarks"]
    assert remark == "session 1 failed: budget: 450 added lines, 441 are allowed"
    assert "Mended it." in git(run, "show", "evo/harness/r002-k1:evolve_notes.md")
    assert steps(run)[2]["repaired"] and "accepted after repair" in run.ok("coevo", "log")


def test_a_harness_that_doesn_t_load_is_an_iteration_kept(run: RunRepository) -> None:
    second, third = steps(run)[2:4]
    assert not third["accepted"] and third["harness"] == second["harness"]
    assert third["why"].startswith("kept at H_t: smoke: harness.py can't be imported")
    assert "RuntimeError" in third["why"] and third["score"] == 1.0
    refused = git(run, "show", "refs/coevo/evo/rejected/r003-k1:harness.py")
    assert "raise RuntimeError(1)" in refused
    round_ = json.loads(run.ok("coevo", "show", "r003", "--json"))
    assert not round_["promoted"] and round_["gain"] is None
    assert "kept at H_t: smoke" in round_["lineages"]["k1"]
    base = git(run, "log", "-1", "--format=%P", "evo/harness/r004-k1").strip()
    assert base == second["harness"], "the next iteration starts from H_t"


def test_the_notes_travel_and_their_history_reads_well(run: RunRepository) -> None:
    form = "--format=%s"
    log = git(run, "log", "-p", form, "evo/harness/r007-k1", "--", "evolve_notes.md")
    assert [line[1:] for line in log.splitlines() if line.startswith("+- ")] == [
        "- End here.", "- Begin stage two.", "- End stage one.", "- Go on after the broken one.",
        "- Add many lines.", "- Mended it.", "- Cut long outputs.",
    ]  # fmt: skip
    subjects = [line for line in log.splitlines() if re.fullmatch(r"[A-Z][^:]*\.", line)]
    assert subjects == [
        "End here.", "Begin stage two.", "End stage one.", "Go on after the broken one.",
        "Add many lines.", "Cut long outputs.",
    ]  # fmt: skip


def test_the_session_before_is_shown_from_the_second_iteration_of_a_stage_on(
    run: RunRepository,
) -> None:
    notes = git(run, "show", "evo/harness/r004-k1:evolve_notes.md")
    assert notes.count('"check": "smoke: harness.py can\'t be imported') == 2, "update and repair"
    sixth = git(run, "show", "evo/harness/r006-k1:evolve_notes.md")
    seventh = git(run, "show", "evo/harness/r007-k1:evolve_notes.md")
    assert "previous_update" not in sixth and "previous_update" in seventh
    folder = run.folder / ".coevo" / "evolution" / "evo" / "r007" / "k1" / "trials"
    assert (folder / "previous_update" / "update" / "agent" / "remark.md").read_text() == "seen\n"
    for number, previous in ((5, True), (6, False)):
        brief = git(run, "show", f"evo/evolution~{7 - number}:briefs/k1.json")
        assert ("previous_update" in brief) is previous


def test_git_bisect_finds_the_commit_that_added_truncation(run: RunRepository) -> None:
    [task] = [task for task, scores in outcome(run, 0)["by_task"].items() if scores == [0.0]]
    said = run.ok("coevo", "solves", "harness/r001-k1", task)
    assert "r001-k1" in said and "solves" in said
    failed = run.run("coevo", "solves", "harness/r000-seed", task)
    assert failed.returncode == 1 and "context_overflow" in failed.stdout
    git(run, "bisect", "start", "--no-checkout", "evo/harness/r007-k1", "evo/harness/r000-seed")
    found = git(run, "bisect", "run", "coevo", "solves", "--find-fix", "BISECT_HEAD", task)
    first = git(run, "rev-parse", "evo/harness/r001-k1").strip()
    assert f"{first} is the first bad commit" in found
    git(run, "bisect", "reset")
    unknown = run.run("coevo", "solves", "harness/r000-seed", "ffffffff")
    assert unknown.returncode == 128 and "no one task is called" in unknown.stderr


def test_a_trial_s_folder_names_its_task(run: RunRepository) -> None:
    trials = run.folder / ".coevo" / "evolution" / "evo" / "r007" / "k1" / "trials"
    names = sorted(path.name for path in trials.iterdir())
    assert len(names) == 8 and "previous_update" in names
    trial = next(name for name in names if name.startswith("dialogue"))
    shown = json.loads(run.ok("coevo", "solves", "r007-k1", trial, "--json"))
    assert shown["solves"] and trial.endswith(shown["task"])


def test_a_batch_s_pair_replays_task_by_task(run: RunRepository) -> None:
    replayed = json.loads(run.ok("coevo", "replay", "pair/r005-k1-a", "--json"))
    assert replayed["equal"] and len(replayed["tasks"]) == 7


def test_the_commands_tell_the_story(run: RunRepository) -> None:
    said = run.ok("coevo", "status")
    assert "iteration 7 of 7, stage 2 (2 of 2)" in said and "accepted: End here." in said
    log = run.ok("coevo", "log")
    assert "+4/500" in log and "kept at H_t: smoke" in log and "batch-002" in log
    facts = json.loads(run.ok("coevo", "show", "r002-k1", "--json"))
    assert (facts["line_budget"], facts["check"], facts["editor"]) == (441, "passed", "self")
    code = git(run, "show", "evo/harness/r002-k1:harness.py")
    assert facts["lines"] == len(code.splitlines())


def test_when_all_is_done_nothing_happens_and_git_finds_it_sound(run: RunRepository) -> None:
    before, completions = run.refs(), len(run.completions())
    iterate(run)
    assert run.refs() == before and len(run.completions()) == completions
    run.sound()
    assert not list((run.folder / ".coevo" / "updating").glob("*"))


def test_a_schedule_that_changes_under_way_is_refused(run: RunRepository, tmp_path: Path) -> None:
    copy = run.copied(tmp_path / "copy")
    copy.set_params(seed=5)
    assert "batch-001 as drawn now has" in copy.fails("coevo", "stage", "open", code=2)
