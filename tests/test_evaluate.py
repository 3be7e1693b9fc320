"""`coevo evaluate` on a finished round: which versions, which tables, what is archived."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import RunRepository


@pytest.fixture(scope="module")
def run(one_round: RunRepository, tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    return one_round.copied(tmp_path_factory.mktemp("evaluate") / "base")


def test_without_names_the_seed_and_the_newest_version_are_measured(run: RunRepository) -> None:
    found = json.loads(run.ok("coevo", "evaluate", "--split", "validation", "--json"))
    seed, newest = found["versions"]
    assert [v["version"]["label"] for v in found["versions"]] == ["seed", "iteration 1"]
    assert seed["gains"] == [None, None]
    gain = newest["outcome"]["score"] - seed["outcome"]["score"]
    assert newest["gains"][0]["mean"] == pytest.approx(gain), "one family: nothing to weigh"
    assert newest["gains"][1] is None, "nothing is out of distribution here"
    steps = found["iterations"]
    assert [step["round"] for step in steps] == [0, 1]
    assert steps[0]["lines"] == seed["lines"] and steps[0]["added"] == 0
    pairs = {p["pair"]: p["score"] for p in json.loads(run.ok("coevo", "pairs", "--json"))}
    for each in found["versions"]:
        assert each["outcome"]["score"] == pairs[each["version"]["pair"]], "taken from the journal"


def test_named_versions_as_text_and_markdown(run: RunRepository) -> None:
    names = ("evo/harness/r000-seed", "evo/evolution")
    text = run.ok("coevo", "evaluate", *names, "--repeats", "2")
    assert "Scores x 100 on test" in text and "10x2" in text
    for title in ("Share of rollouts", "How rollouts ended", "Python lines by iteration"):
        assert title in text
    shown = run.ok("coevo", "evaluate", *names, "--repeats", "2", "--markdown")
    head = next(line for line in shown.splitlines() if line.startswith("| family |"))
    assert head.count("|") == 5 and "r000-seed" in head


def test_each_measurement_is_a_commit_that_no_round_reads(run: RunRepository) -> None:
    run.ok("coevo", "evaluate", "evo/evolution", "--repeats", "3")
    refs = [ref for ref in run.refs() if "/evaluation/" in ref]
    newest = max(refs, key=lambda ref: int(ref.rpartition("/")[2]))
    assert all(ref.startswith("refs/coevo/evo/evaluation/") for ref in refs)
    tree = run.ok("git", "ls-tree", "--name-only", newest).split()
    assert tree == ["outcome.json", "report.json", "rollouts.dvc"]
    before = run.refs()
    run.ok("coevo", "evaluate", "evo/evolution", "--repeats", "3")
    assert run.refs() == before, "the same measurement is archived once"
    facts = json.loads(run.ok("coevo", "show", newest, "--json"))
    assert (facts["split"], facts["executions"]) == ("test", 3)
    run.sound()


def test_wrong_names_are_said_to_be_so(run: RunRepository, tmp_path: Path) -> None:
    assert "did you mean" in run.fails("coevo", "evaluate", "r001-k9", code=4)
    done = run.run("coevo", "evaluate", "--split", "train")
    assert done.returncode == 2 and "Traceback" not in done.stderr
