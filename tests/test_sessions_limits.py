"""Broken-off rounds, many sessions at once, and what no session may reach."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from runs import RunRepository, wait_for
from session_runs import (
    edit,
    needs_sandbox,
    offspring,
    planned,
    processes,
    replan,
    sessions,
    stages,
)

from engine.llm.scripted import Answer, Request, ScriptedEndpoint
from engine.params import environment

TIMES = int(environment("COEVO_SESSIONS") or 2)
KEY = "sk-canary-7d21c0ffee9a"
GOLD = "canary_gold_5b1e"
MODEL = "scripted"


def kinds(run: RunRepository) -> dict[str, int]:
    """How many harnesses the archive has, valid and rejected."""
    refs = [ref for ref in run.refs() if "r001-k" in ref]
    return {
        "valid": sum("/harness/" in ref for ref in refs),
        "rejected": sum("/rejected/" in ref for ref in refs),
    }


def test_a_killed_round_goes_on_with_exact_counts(tmp_path: Path) -> None:
    plan = {"k1": ["good"], "k2": ["idle"], "k3": ["good", "hang"], "k4": ["good", "leave", "hang"]}
    run = planned(tmp_path / "run", 4, plan)
    stages(run, "open", "observe", "curate")
    engine = run.started("coevo", "stage", "edit")
    folder = sessions(run)
    done = [folder / slot / "result.json" for slot in ("k1", "k2")]
    wait_for(lambda: all(path.exists() for path in done) and processes("sleep 3601"))
    os.kill(engine.pid, signal.SIGKILL)
    engine.communicate()
    wait_for(lambda: not processes("session_agent.py") and not processes("sleep 3601"))
    assert kinds(run) == {"valid": 0, "rejected": 0}
    before = {path: path.stat().st_mtime_ns for path in done}
    replan(run, plan | {"k3": ["good"], "k4": ["good"]})
    stages(run, "edit")
    assert before == {path: path.stat().st_mtime_ns for path in done}, "they are not run again"
    assert {slot: each["status"] for slot, each in offspring(run).items()} == {
        "k1": "valid", "k2": "rejected", "k3": "valid", "k4": "valid",
    }  # fmt: skip
    assert kinds(run) == {"valid": 3, "rejected": 1}
    assert not list(folder.glob("*/work"))
    run.sound()
    first, refs = offspring(run), run.refs()
    stages(run, "edit")
    assert (offspring(run), run.refs()) == (first, refs), "a second time changes nothing"


@pytest.mark.crash
@pytest.mark.timeout(300 + 60 * TIMES)
def test_eight_side_by_side_again_and_again(tmp_path: Path) -> None:
    """Twenty times with `make test-crash`."""
    run = planned(tmp_path / "run", 8, {f"k{n}": ["good"] for n in range(1, 9)})
    stages(run, "open", "observe", "curate")
    for turn in range(TIMES):
        subprocess.run(["rm", "-rf", str(sessions(run))], check=True)
        stages(run, "edit")
        assert [each["status"] for each in offspring(run).values()] == ["valid"] * 8, turn
        assert not processes("session_agent.py")
        assert not list(sessions(run).glob("*/work"))
        assert run.ok("git", "worktree", "list").count("\n") == 1
        assert not list((run.folder / ".git").rglob("*.lock"))
    assert kinds(run) == {"valid": 8, "rejected": 0}


def script(request: Request) -> Answer:
    """Whatever it is asked, it has nothing to add."""
    return Answer("Nothing to add.")


HOSTILE = {
    "k1": ["good", "deep"],
    "k2": ["good", "no_text"],
    "k3": ["good", "moved"],
    "k3-repair": ["moved"],
}


def test_what_a_session_leaves_on_disk_hurts_nobody_else(tmp_path: Path) -> None:
    run = planned(tmp_path / "run", 3, HOSTILE)
    stages(run, "open", "observe", "curate", "edit")
    found = offspring(run)
    assert "nested deeper than" in found["k1"]["reasons"][0]
    assert found["k2"]["status"] == "valid"
    assert found["k2"]["remarks"] == ["it wrote outside the candidate: not text Coevo-Kind: pair"]
    assert found["k3"]["reasons"][0] == "path: the folder candidate is a symlink"
    run.sound()
    assert not list(sessions(run).glob("*/work"))


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """An edit stage with an endpoint and its key; every reference answer holds a canary, and the
    test split has been used. A session prints all that it can read."""
    base = tmp_path_factory.mktemp("looked") / "run"
    run = planned(base, 2, {"k1": ["good", "look_around"], "k2": ["good", "outside"]})
    for path in sorted((run.base / "homes").glob("*_*.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if "output" in row:
                row["output"] = f"'''{{kitchen.light.{GOLD}()}}'''"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stages(run, "open")
    run.ok("coevo", "test", "evo/evolution")
    stages(run, "observe", "curate")
    with ScriptedEndpoint(script, key=KEY, models=[MODEL]) as server:
        run.set_params(
            llm={"base_url": server.url, "model": MODEL, "api_key_env": "LOOKED_KEY"},
        )
        done = edit(run, LOOKED_KEY=KEY)
    assert done.returncode == 0, done.stderr
    return run


def everything(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


def test_no_key_and_no_answer_in_a_sessions_reach(looked: RunRepository) -> None:
    said = (sessions(looked) / "k1" / "log.txt").read_text(errors="replace")
    assert "OPENAI_API_KEY" in said and "/coevo/archive/INDEX.md" in said, "it did look"
    assert KEY not in said
    assert GOLD not in said
    labelled = everything(looked.folder / ".dvc" / "cache").values()
    assert any(GOLD.encode() in content for content in labelled), "the canary does exist"
    for path, content in everything(sessions(looked) / "view").items():
        assert GOLD.encode() not in content, path
        assert KEY.encode() not in content, path


def test_no_test_result_in_a_sessions_reach(looked: RunRepository) -> None:
    refs = looked.refs()
    [test] = [oid for ref, oid in refs.items() if ref.startswith("refs/coevo/evo/test")]
    outcome = json.loads(looked.ok("git", "show", f"{test}:outcome.json"))
    marks = [test, outcome["eval_key"], *outcome["by_task"]]
    assert len(marks) > 5
    view = sessions(looked) / "view"
    said = (sessions(looked) / "k1" / "log.txt").read_text(errors="replace")
    for mark in marks:
        assert mark not in said
        assert not any(mark.encode() in content for content in everything(view).values())
    git = looked.run("git", f"--git-dir={view / 'archive.git'}", "cat-file", "-t", test)
    assert git.returncode != 0, "nor is its object there"


def test_the_key_is_nowhere_in_the_run(looked: RunRepository) -> None:
    for path, content in everything(looked.folder).items():
        assert KEY.encode() not in content, path
    objects = looked.ok("git", "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    blobs = "\n".join(line.split()[0] for line in objects if line.split()[1] != "tree")
    done = subprocess.run(
        ["git", "cat-file", "--batch"],
        cwd=looked.folder,
        input=blobs.encode(),
        capture_output=True,
        check=True,
    )
    assert KEY.encode() not in done.stdout
    assert GOLD.encode() not in done.stdout


def test_only_the_sessions_own_folders_can_be_written(looked: RunRepository) -> None:
    said = (sessions(looked) / "k2" / "log.txt").read_text()
    assert said.count("Read-only file system") + said.count("Permission denied") == 3
    assert "WRITTEN" not in said


def test_a_mount_that_holds_the_run_or_the_home_is_refused(tmp_path: Path) -> None:
    needs_sandbox()
    run = planned(tmp_path / "run", 1, {"k1": ["good"]}, mounts=[str(tmp_path)])
    stages(run, "open", "observe", "curate")
    said = run.fails("coevo", "stage", "edit", code=2)
    assert "the run repository" in said and str(tmp_path) in said
