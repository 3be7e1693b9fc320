"""Every kind of commit, as git itself shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from archive_case import FILES, RUN, begun, clean, git, measured, offspring, one_round

from engine.archive import Archive, CheckpointDraft, HarnessDraft, RoundDraft
from engine.errors import ArchiveError


def parents(root: Path, commit: str) -> list[str]:
    return git(root, "log", "-1", "--format=%P", commit).split()


def trailer(root: Path, commit: str, key: str) -> str:
    return git(root, "log", "-1", f"--format=%(trailers:key={key},valueonly)", commit)


def tree(root: Path, commit: str) -> list[str]:
    return git(root, "ls-tree", "-r", "--name-only", commit).splitlines()


def test_harness_is_its_workspace_with_base_and_adopted_as_parents(tmp_path: Path) -> None:
    run = begun(tmp_path)
    k1 = run.archive.record_harness(offspring(run.harness, 1, "k1", "# one\n"))
    draft = offspring(k1, 2, "k1", "# two\n")
    child = run.archive.record_harness(
        HarnessDraft(
            **{
                **vars(draft),
                "adopts": (draft.adopts[0], *offspring(run.harness, 1, "k1", "").adopts),
            }
        )
    )
    branch = f"{RUN}/harness/r002-k1"
    assert git(tmp_path, "rev-parse", branch) == child
    assert parents(tmp_path, child) == [k1, run.harness]
    assert git(tmp_path, "show", f"{branch}:harness.py") == "# two"
    assert tree(tmp_path, child) == sorted([*FILES, "evolution_report.md"])
    assert trailer(tmp_path, child, "Coevo-Kind") == "harness"
    assert trailer(tmp_path, child, "Coevo-Round") == "2"
    assert trailer(tmp_path, child, "Coevo-Slot") == "k1"
    assert trailer(tmp_path, child, "Coevo-Base") == k1
    assert trailer(tmp_path, child, "Coevo-Adopts").splitlines() == [
        f"{k1} retry a malformed call",
        f"{run.harness} retry a malformed call",
    ]
    assert trailer(tmp_path, child, "Coevo-Editor") == "recipes"
    assert trailer(tmp_path, child, "Coevo-Lines-Added") == "3"
    assert trailer(tmp_path, child, "Coevo-Line-Budget") == "500"
    assert trailer(tmp_path, child, "Coevo-Check") == "passed"
    back = run.archive.harness(child)
    assert (back.base, back.round, back.slot, back.line_budget) == (k1, 2, "k1", 500)
    assert [a.mechanism for a in back.adopts] == ["retry a malformed call"] * 2
    assert dict(back.files) == dict(draft.files)
    assert [h.oid for h in run.archive.lineage(child)] == [child, k1, run.harness]


def test_a_merge_of_checkpoints_is_a_merge_commit(tmp_path: Path) -> None:
    run = begun(tmp_path)
    made = one_round(run)
    assert parents(tmp_path, run.checkpoint) == []
    assert parents(tmp_path, made["sft"]) == [run.checkpoint]
    assert parents(tmp_path, made["merged"]) == [run.checkpoint, made["sft"]]
    assert tree(tmp_path, made["merged"]) == ["README.md", "checkpoint.dvc", "provenance.json"]
    assert trailer(tmp_path, made["merged"], "Coevo-Method") == "ties"
    assert trailer(tmp_path, made["merged"], "Coevo-Alpha") == "0.25 0.75"
    assert trailer(tmp_path, made["sft"], "Coevo-Trained-Under") == made["k1"]
    assert trailer(tmp_path, made["sft"], "Coevo-Weights") == "6" * 64
    back = run.archive.checkpoint("r001-k1-m1")
    assert (back.alpha, back.sources) == ((0.25, 0.75), (run.checkpoint, made["sft"]))
    assert back.provenance == {"density": 0.5}
    assert back.dvc == "outs:\n- md5: 4\n"


def test_pair_holds_the_harness_tree_itself_and_its_figures(tmp_path: Path) -> None:
    run = begun(tmp_path)
    assert parents(tmp_path, run.pair) == [run.harness, run.checkpoint]
    assert git(tmp_path, "rev-parse", f"{run.pair}:harness") == git(
        tmp_path, "rev-parse", f"{run.harness}^{{tree}}"
    )
    assert git(tmp_path, "rev-parse", f"{run.pair}:checkpoint.dvc") == git(
        tmp_path, "rev-parse", f"{run.checkpoint}:checkpoint.dvc"
    )
    outcome = json.loads(git(tmp_path, "show", f"{run.pair}:outcome.json"))
    assert outcome["by_task"] == {"t-1": 0.25}
    assert trailer(tmp_path, run.pair, "Coevo-Score") == "0.25"
    assert trailer(tmp_path, run.pair, "Coevo-TIMR") == "0.125"
    assert trailer(tmp_path, run.pair, "Coevo-Op-F1") == "0.5"
    assert trailer(tmp_path, run.pair, "Coevo-Success-VS") == "0.333333"
    assert trailer(tmp_path, run.pair, "Coevo-Split") == "validation"
    assert trailer(tmp_path, run.pair, "Coevo-Eval-Key") == "key-r000-seed"
    back = run.archive.pair(run.pair)
    assert (back.score, back.timr, back.outcome) == (0.25, 0.125, outcome)
    assert back.metrics["success_VS"] == 1 / 3


def test_round_reaches_all_it_archived_and_holds_the_incumbent(tmp_path: Path) -> None:
    run = begun(tmp_path)
    made = one_round(run)
    assert git(tmp_path, "rev-parse", f"{RUN}/evolution") == made["end"]
    assert parents(tmp_path, made["end"])[:2] == [run.round, made["pair"]]
    assert set(parents(tmp_path, made["end"])[2:]) == {made["k2"], made["k3"], made["sft"]}
    wanted = {"round.json", "briefs/k1.md", "outcome.json", "checkpoint.dvc", "rollouts.dvc"}
    assert wanted | {"harness/harness.py"} <= set(tree(tmp_path, made["end"]))
    assert git(tmp_path, "rev-parse", f"{made['end']}:harness") == git(
        tmp_path, "rev-parse", f"{made['k1']}^{{tree}}"
    )
    assert trailer(tmp_path, made["end"], "Coevo-Incumbent") == made["pair"]
    assert trailer(tmp_path, made["end"], "Coevo-Promoted") == "yes"
    assert trailer(tmp_path, made["end"], "Coevo-Gain") == "0.25"
    assert trailer(tmp_path, made["end"], "Coevo-Cost-Prompt-Tokens") == "1234567"
    tip = run.archive.tip()
    assert tip is not None
    assert (tip.oid, tip.parent, tip.pairs) == (made["end"], run.round, (made["pair"],))
    assert set(tip.others) == {made["k2"], made["k3"], made["sft"]}
    assert tip.costs == {"prompt_tokens": 1234567.0, "wall_s": 1.5}


def test_rejected_offspring_are_hidden_kept_and_no_base(tmp_path: Path) -> None:
    run = begun(tmp_path)
    made = one_round(run)
    assert git(tmp_path, "rev-parse", f"refs/coevo/{RUN}/rejected/r001-k3") == made["k3"]
    assert "r001-k3" not in git(tmp_path, "branch", "--list")
    assert trailer(tmp_path, made["k3"], "Coevo-Check") == "rejected: smoke failed: no answer"
    assert git(tmp_path, "merge-base", "--is-ancestor", made["k3"], f"{RUN}/evolution") == ""
    labels = [h.label for h in run.archive.harnesses()]
    assert labels == ["r000-seed", "r001-k1", "r001-k2"]
    assert run.archive.harnesses(include_rejected=True)[-1].rejected
    with pytest.raises(ArchiveError, match="is rejected r001-k3"):
        run.archive.record_harness(offspring(made["k3"], 2, "k1", "x"))


def test_test_results_are_out_of_the_evolutions_reach(tmp_path: Path) -> None:
    run = begun(tmp_path)
    first = run.archive.record_test(
        pair=run.pair, outcome={"score": 0.2}, subject="Test", rollouts_dvc="outs: []\n"
    )
    second = run.archive.record_test(pair=run.pair, outcome={"score": 0.3}, subject="Test")
    made = one_round(run)
    assert git(
        tmp_path, "rev-parse", f"refs/coevo/{RUN}/test/1", f"refs/coevo/{RUN}/test/2"
    ).split() == [
        first,
        second,
    ]
    assert parents(tmp_path, first) == [run.pair]
    reached = git(tmp_path, "rev-list", "--branches").splitlines()
    assert made["end"] in reached
    assert first not in reached and second not in reached
    assert [t.score for t in run.archive.tests()] == [0.2, 0.3]
    assert first not in [p.oid for p in run.archive.pairs()]
    assert clean(tmp_path)


def test_git_shows_the_archive(tmp_path: Path) -> None:
    run = begun(tmp_path)
    made = one_round(run)
    run.archive.notes_rebuild()
    run.archive.configure()
    graph = git(tmp_path, "log", "--graph", "--format=%H", f"{RUN}/evolution")
    assert all(oid in graph for oid in made.values())
    scores = git(
        tmp_path, "log", "--format=%(trailers:key=Coevo-Score,valueonly)", f"{RUN}/evolution"
    )
    assert scores.split() == ["0.5", "0.25"]
    assert "+# 1 one" in git(tmp_path, "diff", run.harness, made["k1"])
    assert "score 0.5, TIMR 0.125 (r001-k1-a)" in git(tmp_path, "log", "-1", made["k1"])
    assert "Round 1" in git(tmp_path, "rounds") and "Measure" not in git(tmp_path, "rounds")
    assert "Try k1 score 0.5" in git(tmp_path, "lineage")
    assert "Merge" in git(tmp_path, "weights") and "Try" not in git(tmp_path, "weights")


def test_notes_keep_the_best_pair_and_leave_other_notes(tmp_path: Path) -> None:
    run = begun(tmp_path)
    git(tmp_path, "notes", "--ref", "coevo", "add", "-m", "mine", run.round)
    measured(run.archive, "r001-a", run.harness, run.checkpoint, 0.75, 1)
    measured(run.archive, "r001-b", run.harness, run.checkpoint, 0.5, 1)
    assert run.archive.notes_rebuild() == 1
    before = git(tmp_path, "rev-parse", "refs/notes/coevo")
    assert run.archive.notes_rebuild() == 1
    assert git(tmp_path, "rev-parse", "refs/notes/coevo") == before
    assert git(tmp_path, "notes", "--ref", "coevo", "show", run.harness).startswith("score 0.75")
    assert git(tmp_path, "notes", "--ref", "coevo", "show", run.round) == "mine"


def test_the_same_again_gives_the_same_commit_and_another_is_refused(tmp_path: Path) -> None:
    run = begun(tmp_path)
    made = one_round(run)
    state = git(tmp_path, "rev-parse", f"refs/coevo/{RUN}/state")
    assert one_round(run) == made
    assert git(tmp_path, "rev-parse", f"refs/coevo/{RUN}/state") == state
    with pytest.raises(ArchiveError, match="append-only"):
        run.archive.record_harness(offspring(run.harness, 1, "k1", "# other\n"))
    with pytest.raises(ArchiveError, match="append-only"):
        run.archive.record_harness(offspring(run.harness, 1, "k3", "# now fine\n"))
    with pytest.raises(ArchiveError, match="given twice"):
        run.archive.record_harnesses([offspring(run.harness, 2, "k1", "# a\n")] * 2)
    assert git(tmp_path, "rev-parse", f"refs/coevo/{RUN}/state") == state


def test_offspring_appear_together_or_not_at_all(tmp_path: Path) -> None:
    run = begun(tmp_path)
    drafts = [offspring(run.harness, 1, f"k{i}", f"# {i}\n") for i in range(1, 5)]
    bad = HarnessDraft(1, "k5", {"../harness.py": b""}, "Escape", base=run.harness)
    with pytest.raises(ArchiveError, match="component"):
        run.archive.record_harnesses([*drafts, bad])
    assert git(tmp_path, "for-each-ref", f"refs/heads/{RUN}/harness").count("\n") == 0
    before = git(tmp_path, "rev-parse", f"refs/coevo/{RUN}/state")
    run.archive.record_harnesses(drafts)
    assert (
        git(tmp_path, "rev-list", "--first-parent", f"{before}..refs/coevo/{RUN}/state").count("\n")
        == 0
    )


def test_same_code_is_a_duplicate_whatever_its_notes_say(tmp_path: Path) -> None:
    run = begun(tmp_path)
    k1 = run.archive.record_harness(offspring(run.harness, 1, "k1", "# same\n"))
    twin = offspring(run.harness, 2, "k1", "# same\n")
    siblings = run.archive.record_harnesses(
        [
            HarnessDraft(**{**vars(twin), "files": {**twin.files, "evolve_notes.md": b"new\n"}}),
            offspring(run.harness, 2, "k2", "# fresh\n"),
            offspring(run.harness, 2, "k3", "# fresh\n"),
        ]
    )
    found = [run.archive.harness(oid).duplicate_of for oid in siblings]
    assert found == [k1, None, siblings[1]]
    assert trailer(tmp_path, siblings[0], "Coevo-Check") == f"duplicate of {k1}"
    code = Archive.code_id(twin.files)
    assert run.archive.find_code(code) == k1
    assert Archive.open(tmp_path, RUN).find_code(code) == k1
    assert run.archive.find_code(Archive.code_id({"harness.py": b"unseen"})) is None
    bare = {path: data for path, data in twin.files.items() if not path.startswith("evol")}
    assert Archive.code_id(bare) == code
    kept = run.archive.record_harness(HarnessDraft(3, "k1", bare, "Bare", base=run.harness))
    assert git(tmp_path, "rev-parse", f"{kept}^{{tree}}") == code


def test_wrong_references_are_refused_by_name(tmp_path: Path) -> None:
    run = begun(tmp_path)
    with pytest.raises(ArchiveError, match="is not in the archive; an archived harness is needed"):
        run.archive.record_harness(offspring("0" * 40, 1, "k1", "x"))
    with pytest.raises(ArchiveError, match="is checkpoint r000-seed; an archived harness"):
        measured(run.archive, "r001-a", run.checkpoint, run.checkpoint, 0.1, 1)
    with pytest.raises(ArchiveError, match="round 2 can't end now: round 1 is next"):
        run.archive.record_round(RoundDraft(2, run.pair, False, "Skip"))
    with pytest.raises(ArchiveError, match="would hide harness of the incumbent"):
        run.archive.record_round(
            RoundDraft(1, run.pair, False, "Hide", files={"harness/x.py": b""})
        )
    with pytest.raises(ArchiveError, match="belongs to round 1, not 2"):
        measured(run.archive, "r001-a", run.harness, run.checkpoint, 0.1, 2)
    with pytest.raises(ArchiveError, match="sft with 0 sources"):
        run.archive.record_checkpoint(
            CheckpointDraft("r001-sft", 1, "sft", "1", "", {}, "", "No source")
        )
    with pytest.raises(ArchiveError, match="can't be kept as JSON"):
        measured(run.archive, "r001-a", run.harness, run.checkpoint, float("nan"), 1)
    with pytest.raises(ArchiveError, match="malformed"):
        run.archive.record_harness(offspring(run.harness, 1, "K 1", "x"))
    assert clean(tmp_path)
