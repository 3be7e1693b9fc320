"""Rounds whose editors are coding agents in sandboxes: what becomes of good and bad sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import RunRepository
from session_runs import offspring, planned, processes, replan, sessions, stages

FIRST = {
    "k1": ["good", "invent", "smoke", "git_reads"],
    "k2": ["good", "broken"],
    "k2-repair": ["mended"],
    "k3": ["good", "broken"],
    "k4": ["good", "hang"],
    "k5": ["good", "flood"],
    "k6": ["good", "rewrite", "outside", "commit", "leave", "hidden"],
    "k7": ["idle"],
    "k8": ["good", "many"],
}

SECOND = {
    "k1": ["from_seed", "adopt", "edit", "report", "adopt_and_say"],
    "k2": ["from_seed", "adopt", "edit", "report", "declare_seed"],
    "k3": ["good", "unknown_base"],
    "k3-repair": ["declare"],
    "k4": ["other_base"],
    "k5": ["from_seed", "edit", "report", "false_base"],
    "k6": ["edit", "wait", "declare"],
    "k6-repair": ["report"],
    "k7": ["good", "link"],
    "k8": ["fail"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """After round 1 under the plan FIRST."""
    base = tmp_path_factory.mktemp("sessions") / "first"
    made = planned(base, 8, FIRST, wall_s=20.0)
    made.ok("dvc", "repro")
    return made


@pytest.fixture(scope="module")
def second(run: RunRepository, tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """The same with round 2 edited under the plan SECOND."""
    made = run.copied(tmp_path_factory.mktemp("sessions") / "first")
    path = made.folder / "params.yaml"
    path.write_text(path.read_text().replace(str(run.base.parent), str(made.base.parent)))
    replan(made, SECOND)
    stages(made, "open", "observe", "curate", "edit")
    return made


def trailers(run: RunRepository, ref: str, key: str) -> list[str]:
    form = f"--format=%(trailers:key=Coevo-{key},valueonly)"
    return run.ok("git", "log", "-1", form, ref).strip().splitlines()


def parents(run: RunRepository, ref: str) -> list[str]:
    return run.ok("git", "log", "-1", "--format=%P", ref).split()


def commit(run: RunRepository, ref: str) -> str:
    return run.ok("git", "rev-parse", ref).strip()


def test_a_good_session_is_a_branch_from_its_base(run: RunRepository) -> None:
    made = offspring(run)["k1"]
    assert made["status"] == "valid" and not made["reasons"] and not made["remarks"]
    assert parents(run, "evo/harness/r001-k1") == [commit(run, "evo/harness/r000-seed")]
    assert trailers(run, "evo/harness/r001-k1", "Editor") == ["command:python3"]
    assert run.ok("git", "log", "-1", "--format=%s", "evo/harness/r001-k1").strip() == "Mark k1"
    run.sound()


def test_checks_and_plain_git_work_inside(run: RunRepository) -> None:
    notes = run.ok("git", "show", "evo/harness/r001-k1:evolve_notes.md")
    assert "SMOKE OK" in notes
    assert "Archive the seed harness" in notes
    assert " M harness.py" in notes and "?? borrowed.py" in notes


def test_one_is_repaired_and_one_rejected_for_good(run: RunRepository) -> None:
    found = offspring(run)
    assert (found["k2"]["status"], found["k2"]["repaired"]) == ("valid", True)
    assert (found["k3"]["status"], found["k3"]["repaired"]) == ("rejected", True)
    assert any(reason.startswith("syntax") for reason in found["k3"]["reasons"])
    ref = "refs/coevo/evo/rejected/r001-k3"
    assert trailers(run, ref, "Check")[0].startswith("rejected: syntax")


@pytest.mark.parametrize(
    ("slot", "words"),
    [("k4", "hung"), ("k5", "flooded the disk"), ("k8", "more than 64 processes")],
)
def test_a_session_over_a_limit_is_ended_and_archived_as_rejected(
    run: RunRepository, slot: str, words: str
) -> None:
    made = offspring(run)[slot]
    assert made["status"] == "rejected" and not made["repaired"]
    assert len(made["reasons"]) == 1 and words in made["reasons"][0]
    assert words in trailers(run, f"refs/coevo/evo/rejected/r001-{slot}", "Check")[0]


def test_what_a_session_does_beside_its_work_is_remarked_and_undone(run: RunRepository) -> None:
    made = offspring(run)["k6"]
    assert made["status"] == "valid", made["reasons"]
    said = " / ".join(made["remarks"])
    assert "left 2 processes" in said and "sleep 3601" in said
    assert "outside the candidate: elsewhere.txt" in said
    assert "1 commits of its own" in said
    assert "hidden files were left out: .agent" in said
    assert not processes("sleep 3600") and not processes("sleep 3601")
    files = run.ok("git", "ls-tree", "-r", "--name-only", "evo/harness/r001-k6").split()
    assert set(files) >= {"harness.py", "evolution_report.md"}
    assert not set(files) & {"elsewhere.txt", "coevo.json", ".agent/cache"}
    assert "WRITTEN" not in record(run, made, "log.txt")


def test_exit_0_with_nothing_done_is_seen_in_the_diff(run: RunRepository) -> None:
    made = offspring(run)["k7"]
    assert made["status"] == "rejected"
    assert "ended with status 0 and changed nothing" in made["reasons"][0]
    assert "I have done everything" in record(run, made, "first/log.txt")


def record(run: RunRepository, made: dict[str, object], name: str) -> str:
    """A file of a session's record, brought back from DVC by what the commit says."""
    [text] = trailers(run, str(made["harness"]), "Session")
    [out] = json.loads(text)["outs"]
    cache = run.folder / ".dvc" / "cache" / "files" / "md5"
    listing = json.loads((cache / out["md5"][:2] / out["md5"][2:]).read_text())
    [md5] = [each["md5"] for each in listing if each["relpath"] == name]
    return (cache / md5[:2] / md5[2:]).read_text()


def test_every_offspring_links_its_record(run: RunRepository) -> None:
    for slot, made in offspring(run).items():
        assert f"# Brief {slot}" in record(run, made, "prompt.md")
        assert json.loads(record(run, made, "session.json"))["agent"] == "command:python3"


def test_nothing_is_left_behind(run: RunRepository) -> None:
    folder = sessions(run)
    assert not list(folder.glob("*/work")) and not list(folder.glob("*/shown"))
    assert run.ok("git", "worktree", "list").count("\n") == 1
    assert not processes("session_agent.py")


def test_answers_that_earned_a_score_are_left_out_of_the_view(run: RunRepository) -> None:
    """They are the reference answers."""
    kept = run.folder / ".coevo" / "rollouts" / "evo" / "r000-seed.jsonl"
    before = {each["task"]: each for each in map(json.loads, kept.read_text().splitlines())}
    view = sessions(run) / "view"
    lines = (view / "incumbent" / "rollouts.jsonl").read_text().splitlines()
    short = (view / "rollouts" / "r000-seed.md").read_text()
    scores = set()
    for each in map(json.loads, lines):
        own = before[each["task"]]
        scores.add(each["score"])
        if each["score"] == 0:
            assert each == own
            continue
        answer = own["trajectory"]["answer"]
        first, *said = each["trajectory"]["events"]
        assert first == own["trajectory"]["events"][0]
        assert answer not in json.dumps([said, each["trajectory"]["answer"]])
        part = short.partition(f"## {each['task']}:")[2].partition("\n## ")[0]
        assert "answer: " in part and answer not in part.partition("calls:")[2]
    assert scores == {0.0, 1.0}


def test_pushing_takes_the_records_along(run: RunRepository) -> None:
    remote = run.base / "remote"
    run.ok("dvc", "remote", "add", "--default", "--force", "shared", str(remote))
    run.ok("coevo", "push")
    [text] = trailers(run, "evo/harness/r001-k1", "Session")
    md5 = json.loads(text)["outs"][0]["md5"]
    assert (remote / "files" / "md5" / md5[:2] / md5[2:]).is_file()


# --- round 2 ----------------------------------------------------------------------------------


def test_a_declared_adoption_is_the_second_parent(second: RunRepository) -> None:
    made = offspring(second)["k1"]
    assert made["status"] == "valid", made["reasons"]
    seed, donor = (commit(second, f"evo/harness/{n}") for n in ("r000-seed", "r001-k1"))
    assert parents(second, "evo/harness/r002-k1") == [seed, donor]
    assert trailers(second, "evo/harness/r002-k1", "Adopts") == [f"{donor} borrowed functions"]


def test_an_undeclared_adoption_is_found_and_added(second: RunRepository) -> None:
    made = offspring(second)["k2"]
    assert made["status"] == "valid", made["reasons"]
    donor = commit(second, "evo/harness/r001-k1")
    assert parents(second, "evo/harness/r002-k2")[1:] == [donor]
    assert trailers(second, "evo/harness/r002-k2", "Adopts") == [
        f"{donor} code in borrowed.py (found)"
    ]
    assert any("without saying so" in remark for remark in made["remarks"])


def test_an_unknown_base_is_sent_back(second: RunRepository) -> None:
    made = offspring(second)["k3"]
    assert (made["status"], made["repaired"]) == ("valid", True), made["reasons"]
    first = json.loads(record(second, made, "first/session.json"))
    assert first["reasons"][0].startswith("base: 'r099-k1' is no harness of the archive")


def test_an_editor_picks_another_base_by_plain_git(second: RunRepository) -> None:
    made = offspring(second)["k4"]
    assert made["status"] == "valid", made["reasons"]
    assert parents(second, "evo/harness/r002-k4") == [commit(second, "evo/harness/r000-seed")]
    assert not made["remarks"], "a checkout is no commit"


def test_a_false_base_is_refused(second: RunRepository) -> None:
    made = offspring(second)["k5"]
    assert made["status"] == "rejected"
    assert any("much nearer to" in reason for reason in made["reasons"]), made["reasons"]


def test_an_edit_before_its_diagnosis_is_remarked(second: RunRepository) -> None:
    found = offspring(second)
    [said] = [each for each in found["k6"]["remarks"] if "before its diagnosis" in each]
    assert said.startswith("it changed code before its diagnosis: after ")
    assert "and stated it after" in said
    for slot in ("k1", "k3", "k4"):
        assert "before its diagnosis" not in " ".join(found[slot]["remarks"])
    first = sessions(second, 2) / "k6-repair" / "record" / "first" / "session.json"
    assert json.loads(first.read_text())["early"] == said


def test_a_missing_report_is_sent_back(second: RunRepository) -> None:
    made = offspring(second)["k6"]
    assert (made["status"], made["repaired"]) == ("valid", True), made["reasons"]
    reasons = json.loads(record(second, made, "first/session.json"))["reasons"]
    assert [reason.partition(":")[0] for reason in reasons] == ["diagnosis", "report"]


def test_a_link_is_no_harness_file(second: RunRepository) -> None:
    made = offspring(second)["k7"]
    assert made["status"] == "rejected"
    assert "path: passwd is a symlink" in made["reasons"]
    assert "root:" not in second.ok("git", "show", f"{made['harness']}:harness.py")


def test_a_failing_agent_is_told_from_an_idle_one(second: RunRepository) -> None:
    made = offspring(second)["k8"]
    assert made["status"] == "rejected"
    assert "status 3 and changed nothing" in " ".join(made["reasons"])


def test_the_view_is_the_archive_before_this_round(second: RunRepository) -> None:
    view = sessions(second, 2) / "view"
    names = {path.name for path in (view / "harnesses").iterdir()}
    assert names == {"r000-seed", *(f"r001-k{n}" for n in range(1, 9))}
    log = second.ok("git", f"--git-dir={view / 'archive.git'}", "log", "--all", "--format=%H")
    archived = second.ok("git", "log", "--format=%H", "--glob=refs/heads/evo/harness/r00[01]*")
    assert set(archived.split()) <= set(log.split())
    siblings = second.ok("git", "log", "--format=%H", "--no-walk", "--glob=refs/heads/*/r002-k*")
    assert siblings.split() and not set(siblings.split()) & set(log.split())
    assert not (sessions(second, 1)).exists(), "an earlier round's sessions are gone"
    assert Path(view / "INDEX.md").read_text().count("rejected (") == 5
