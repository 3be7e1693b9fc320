"""A run sent on: pushed to a bare git remote and a DVC remote, gone on with in one clone, read and
replayed in another, with git's housekeeping in between."""

from __future__ import annotations

import json
from pathlib import Path

from runs import RunRepository

EVO = "refs/heads/evo/*:refs/heads/evo/*"


def clone(run: RunRepository, name: str, *refspecs: str) -> Path:
    """A fresh clone of the bare remote with some branches of the run, set up like the first."""
    folder = run.base / name
    run.ok("git", "clone", "-q", "--branch", "main", str(run.base / "bare"), name, cwd=run.base)
    run.ok("git", "fetch", "-q", "origin", *refspecs, cwd=folder)
    for path in ("params.yaml", ".dvc/config"):
        (folder / path).write_bytes((run.folder / path).read_bytes())
    return folder


def test_a_run_goes_through_clones_and_housekeeping(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    run.ok("git", "init", "-q", "--bare", "bare", cwd=run.base)
    run.ok("git", "remote", "add", "origin", str(run.base / "bare"))
    run.ok("git", "push", "-q", "origin", "main")
    run.ok("dvc", "remote", "add", "--default", "shared", str(run.base / "remote"))
    run.ok("coevo", "push", "origin")
    run.ok("git", "gc", "-q", "--prune=now")
    run.ok("git", "gc", "-q", "--prune=now", cwd=run.base / "bare")

    second = clone(run, "second", EVO)
    run.ok("dvc", "repro", cwd=second)
    run.ok("git", "gc", "-q", "--prune=now", cwd=second)
    run.ok("coevo", "push", "origin", cwd=second)

    third = clone(run, "third", "evo/evolution:evo/evolution")
    rows = json.loads(run.ok("coevo", "log", "--json", cwd=third))
    assert rows == json.loads(run.ok("coevo", "log", "--json", cwd=second))
    assert {row["round"] for row in rows} == {0, 1, 2}
    for pair in ("evo/evolution", "r001-adapted"):
        assert json.loads(run.ok("coevo", "replay", pair, "--json", cwd=third))["equal"]
    assert run.run("git", "fsck", "--full", "--strict", cwd=third).returncode == 0

    run.ok("git", "fetch", "-q", "origin", EVO)
    assert "all 2 rounds are done" in run.run("coevo", "stage", "open").stderr
    assert json.loads(run.ok("coevo", "status", "--json"))["round"] == 2


def test_two_machines_that_went_apart_are_told_so(one_round: RunRepository, tmp_path: Path) -> None:
    """Both ran round 2: neither overwrites the other."""
    run = one_round.copied(tmp_path / "base")
    run.ok("git", "init", "-q", "--bare", "bare", cwd=run.base)
    run.ok("git", "remote", "add", "origin", str(run.base / "bare"))
    run.ok("git", "push", "-q", "origin", "main")
    run.ok("dvc", "remote", "add", "--default", "shared", str(run.base / "remote"))
    run.ok("coevo", "push", "origin")
    second = clone(run, "second", EVO)
    run.ok("dvc", "repro", cwd=second)
    run.ok("coevo", "push", "origin", cwd=second)
    run.ok("dvc", "repro")
    before = run.refs()
    said = run.fails("coevo", "push", "origin", code=4)
    assert "git push origin" in said
    assert run.refs() == before and run.round() == 2
    run.sound()
