"""Whole rounds by `dvc repro`, with scripted model, trainer and merger: everything else is real."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from runs import RunRepository


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """Three rounds, the third of which is the last."""
    made = RunRepository(tmp_path_factory.mktemp("round"))
    for _ in range(3):
        made.ok("dvc", "repro")
    return made


def git(run: RunRepository, *arguments: str) -> str:
    return run.ok("git", *arguments)


def status(run: RunRepository) -> dict[str, Any]:
    return dict(json.loads(run.ok("coevo", "status", "--json")))


def rounds(run: RunRepository) -> list[str]:
    """Round commits, newest first (round 0 has no previous round: its first parent is a pair)."""
    form = "--format=%H %(trailers:key=Coevo-Kind,valueonly,separator=)"
    lines = git(run, "log", "--first-parent", form, "evo/evolution").splitlines()
    return [line.split()[0] for line in lines if line.endswith(" round")]


def trailers(run: RunRepository, commit: str, key: str) -> list[str]:
    form = f"--format=%(trailers:key={key},valueonly)"
    return git(run, "log", "-1", form, commit).split()


def parents(run: RunRepository, commit: str) -> list[str]:
    return git(run, "log", "-1", "--format=%P", commit).split()


def test_the_archive_holds_every_kind_and_git_finds_it_sound(run: RunRepository) -> None:
    git(run, "fsck", "--full", "--strict")
    log = git(run, "log", "--format=%(trailers:key=Coevo-Kind,valueonly)", "evo/evolution")
    kinds = log.split()
    assert kinds.count("round") == 4
    assert {"harness", "checkpoint", "pair", "round"} == set(kinds)


def test_a_pair_has_its_harness_and_checkpoint_for_parents(run: RunRepository) -> None:
    shown = json.loads(run.ok("coevo", "show", "evo/pair/r001-adapted", "--json"))
    assert parents(run, "evo/pair/r001-adapted") == [shown["harness"], shown["checkpoint"]]
    assert float(*trailers(run, "evo/pair/r001-adapted", "Coevo-Score")) == pytest.approx(
        shown["score"], abs=1e-6
    )
    tree = git(run, "rev-parse", "evo/pair/r001-adapted:harness", f"{shown['harness']}^{{tree}}")
    assert len(set(tree.split())) == 1, "the pair holds the harness's own tree"


def test_adaptation_and_merges_are_the_checkpoint_lineage(run: RunRepository) -> None:
    seed = git(run, "rev-parse", "evo/checkpoint/r000-seed").strip()
    assert parents(run, "evo/checkpoint/r000-seed") == []
    assert parents(run, "evo/checkpoint/r001-sft") == [seed]
    merges = git(
        run, "branch", "--list", "evo/checkpoint/*-m1", "--format=%(refname:short)"
    ).split()
    assert merges, "from round 2 on there is something to merge"
    assert all(len(parents(run, merge)) >= 2 for merge in merges)


def test_the_incumbent_climbs_and_the_test_split_confirms_it(run: RunRepository) -> None:
    facts = status(run)
    scores = [
        json.loads(git(run, "show", f"{commit}:metrics.json"))["score"] for commit in rounds(run)
    ]
    assert facts["round"] == 3 and scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]
    tested = json.loads(run.ok("coevo", "test", "evo/evolution", "--json"))
    assert tested["difference"]["low"] > 0
    assert git(run, "for-each-ref", "refs/coevo/evo/test").strip()
    reached = git(run, "log", "--format=%H", "evo/evolution").split()
    assert tested["commit"] not in reached


def test_after_the_last_round_dvc_has_nothing_to_do(run: RunRepository) -> None:
    before = git(run, "for-each-ref")
    said = run.ok("dvc", "repro")
    assert "Running stage 'observe'" not in said
    assert git(run, "for-each-ref") == before
    assert "all 3 rounds are done" in run.run("coevo", "stage", "open").stderr


def test_a_finished_stage_run_again_changes_nothing(run: RunRepository) -> None:
    before = git(run, "for-each-ref")
    folder = run.folder / "round"
    records = {path.name: json.loads(path.read_bytes()) for path in folder.glob("*.json")}
    completions = len(run.completions())
    for stage in ("observe", "curate", "edit", "inherit", "adapt", "promote"):
        run.ok("coevo", "stage", stage)
    assert git(run, "for-each-ref") == before
    assert len(run.completions()) == completions, "nothing ran"
    assert records == {path.name: json.loads(path.read_bytes()) for path in folder.glob("*.json")}


def test_dvc_shows_metrics_plots_and_the_method(run: RunRepository) -> None:
    assert "success" in run.ok("dvc", "metrics", "show")
    assert "observe" in run.ok("dvc", "dag")
    assert [row["round"] for row in json.loads((run.folder / "plots.json").read_text())] == [
        0, 1, 2, 3,
    ]  # fmt: skip


def test_no_label_and_no_task_id_enters_git(run: RunRepository) -> None:
    """Everything reachable is searched for the ids and the reference answers of the tasks."""
    answers = [
        json.loads(line)
        for name in ("train_pool", "test_sample")
        for line in (run.base / "homes" / f"{name}.jsonl").read_text().splitlines()
    ]
    objects = git(run, "rev-list", "--objects", "--all", "--", ".").split("\n")
    blobs = [line.split(" ", 1)[0] for line in objects if " " in line]
    done = subprocess.run(
        ["git", "cat-file", "--batch"],
        cwd=run.folder,
        input="\n".join(blobs),
        text=True,
        capture_output=True,
        check=True,
        errors="replace",
    )
    for row in answers:
        assert row["id"] not in done.stdout
    secret = (run.folder / ".coevo" / "secret").read_bytes()
    assert secret.hex() not in done.stdout


def test_the_commands_read_the_archive(run: RunRepository) -> None:
    rows = json.loads(run.ok("coevo", "log", "--json", "-n", "50"))
    assert rows[0]["name"] == "r000-seed" and any(row["promoted"] for row in rows)
    assert len(json.loads(run.ok("coevo", "pairs", "--json"))) >= 6
    assert "harness.py" in run.ok("coevo", "diff", "harness/r000-seed", "harness/r001-k1")
    assert "kind: harness" in run.ok("coevo", "show", "r001-k1")
    assert "evo/evolution" in run.ok("coevo", "status")


def test_replay_in_a_fresh_clone_is_equal_task_by_task(run: RunRepository) -> None:
    """Archive by plain clone, data by the DVC remote."""
    remote = run.base / "remote"
    run.ok("dvc", "remote", "add", "--default", "--force", "shared", str(remote))
    run.ok("coevo", "push")
    clone = run.base / "clone"
    run.ok("git", "clone", "--quiet", "--branch", "main", str(run.folder), str(clone), cwd=run.base)
    run.ok("git", "fetch", "--quiet", "origin", "evo/evolution:evo/evolution", cwd=clone)
    for name in ("params.yaml", ".dvc/config"):
        (clone / name).write_bytes((run.folder / name).read_bytes())
    replayed = json.loads(run.ok("coevo", "replay", "evo/evolution", "--json", cwd=clone))
    assert replayed["equal"] and len(replayed["tasks"]) == 12
    assert run.run("git", "fsck", cwd=clone).returncode == 0


def test_an_agent_is_checked_out_ready_to_run(run: RunRepository) -> None:
    folder = run.base / "agent"
    run.ok("coevo", "use", "evo/evolution", str(folder))
    assert (folder / "harness" / "harness.py").is_file()
    world = json.loads((folder / "world.json").read_text())
    assert "gold" not in world["private"]
    said = run.ok(str(folder / "run.sh"), "Turn on the light in the kitchen.", cwd=run.base)
    assert said.strip() == "{kitchen.light.turn_on()}"


@pytest.mark.parametrize("mode", ["harness-only", "model-only", "latest-only"])
def test_an_ablation_is_one_param(tmp_path: Path, mode: str) -> None:
    run = RunRepository(tmp_path, mode=mode, rounds=2)
    run.ok("dvc", "repro")
    run.ok("dvc", "repro")
    names = git(run, "branch", "--list", "evo/*", "--format=%(refname:short)").split()
    offspring = [name for name in names if name.startswith("evo/harness/r00")]
    trained = [name for name in names if name.endswith("-sft")]
    assert status(run)["round"] == 2
    if mode == "harness-only":
        assert len(offspring) > 1 and not trained
    if mode == "model-only":
        assert offspring == ["evo/harness/r000-seed"] and trained
    if mode == "latest-only":
        assert trained and not [name for name in names if "-m" in name]
        before = json.loads(git(run, "show", "evo/evolution~1:round.json") or "{}")
        incumbent = json.loads(git(run, "show", "evo/evolution:round.json"))["open"]["incumbent"]
        base = json.loads(run.ok("coevo", "show", incumbent, "--json"))["harness"]
        edited = json.loads(git(run, "show", "evo/evolution:round.json"))["offspring"]["offspring"]
        assert {offspring["base"] for offspring in edited} == {base}
        assert before


@pytest.mark.parametrize("name", ["edit", "adapt"])
def test_a_setting_changed_in_a_round_is_found_before_it_costs(
    one_round: RunRepository, tmp_path: Path, name: str
) -> None:
    """`promote` couldn't compare what these stages would go on to measure with the incumbent."""
    run = one_round.copied(tmp_path / "base")
    stages = ["open", "observe", "curate", "edit", "inherit", "adapt"]
    for before in stages[: stages.index(name)]:
        run.ok("coevo", "stage", before)
    archived = git(run, "for-each-ref", "--format=%(objectname) %(refname)")
    run.set_params(limits={"turns": 5})
    error = run.fails("coevo", "stage", name, code=2)
    assert "turns changed since r001-" in error and "`dvc repro --force`" in error
    assert git(run, "for-each-ref", "--format=%(objectname) %(refname)") == archived
