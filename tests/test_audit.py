"""`coevo audit` on a real run: flags, verdicts, and what they do to scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evolution_runs import iterate
from llm_cases import CANARY, MODEL
from runs import RunRepository
from session_runs import told
from shell_domain import GRADER
from shell_runs import shell_run

from engine.llm.scripted import Answer, Request, ScriptedEndpoint

PAIR = "evo/pair/r000-seed"


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """Round 0 measured, tested and evaluated; everything scanned. Not to be changed."""
    run = shell_run(tmp_path_factory.mktemp("audit"))
    run.ok("coevo", "stage", "open")
    run.ok("coevo", "test", "evo/evolution")
    run.ok("coevo", "audit", "scan")
    return run


@pytest.fixture
def run(scanned: RunRepository, tmp_path: Path) -> RunRepository:
    return scanned.copied(tmp_path / "base")


def flags(run: RunRepository, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run.ok("coevo", "audit", "list", *options, "--json"))[
        "flags"
    ]
    return found


def facts(run: RunRepository, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.ok("coevo", "show", name, "--json"))
    return found


def test_rollouts_that_looked_at_the_grader_are_flagged(scanned: RunRepository) -> None:
    found = flags(scanned)
    assert {each["of"] for each in found} == {"pair r000-seed", "test 1"}
    assert all({"answers", "outside"} <= {f["rule"] for f in e["findings"]} for e in found)
    assert all(f["excerpt"] == f"cat {GRADER}" for e in found for f in e["findings"])
    assert all(each["status"] == "open" for each in found)
    shown = json.loads(scanned.ok("coevo", "audit", "show", found[0]["id"], "--json"))
    assert shown["actions"][0]["text"] == f"cat {GRADER}"
    assert found[0]["id"] in scanned.ok("coevo", "audit", "show", found[0]["id"][:6])


def test_a_second_scan_changes_nothing(run: RunRepository) -> None:
    before = run.refs()
    run.ok("coevo", "audit", "scan")
    assert run.refs() == before


def test_a_confirmed_rollout_scores_0_and_nothing_is_rewritten(run: RunRepository) -> None:
    before, refs = facts(run, PAIR), run.refs()
    [one, *others] = [each for each in flags(run) if each["of"] == "pair r000-seed"]
    assert others, "there is more than one"
    run.ok("coevo", "audit", "confirm", one["id"], "--reason", "it printed the grader's answer")
    after = facts(run, PAIR)
    assert after["score"] == pytest.approx(before["score"] - 1 / 12)
    assert after["metrics"]["score"] == after["score"]
    assert after["recorded_score"] == before["score"]
    assert after["audit"]["confirmed"] == 1
    pairs = json.loads(run.ok("coevo", "pairs", "--json"))
    log = json.loads(run.ok("coevo", "log", "--json"))
    status = json.loads(run.ok("coevo", "status", "--json"))
    assert pairs[0]["score"] == log[0]["score"] == status["incumbent"]["score"] == after["score"]
    note = run.ok("git", "notes", "--ref", "coevo", "show", "evo/harness/r000-seed")
    assert f"score {after['score']:.6g}" in note
    kept = {ref: oid for ref, oid in refs.items() if "/state" not in ref and "/notes/" not in ref}
    assert kept.items() <= run.refs().items(), "what was archived stays as it was"
    run.sound()


def test_flags_and_verdicts_are_a_chain_of_commits(run: RunRepository) -> None:
    one = flags(run)[0]
    run.ok("coevo", "audit", "reject", one["id"], "--reason", "only listed it")
    run.ok("coevo", "audit", "confirm", one["id"], "--reason", "no: it used what it read")
    [now] = [each for each in flags(run) if each["id"] == one["id"]]
    assert now["status"] == "confirmed"
    assert [(v["confirmed"], v["by"]) for v in now["verdicts"]] == [
        (False, "person"),
        (True, "person"),
    ]
    chain = run.ok("git", "log", "--format=%s", "--grep=^Audit pair", now["audit"]).splitlines()
    assert len(chain) == 3 and chain[0].endswith("1 confirmed, 2 open")
    form = "--format=%(trailers:key=Coevo-Confirmed,valueonly)"
    assert run.ok("git", "log", "-1", form, now["audit"]).strip() == "1"
    assert facts(run, now["audit"])["of"] == now["commit"]


def test_a_later_round_promotes_against_what_an_audit_left(run: RunRepository) -> None:
    """An offspring that does as well as the incumbent was recorded to do takes the title once one
    of the incumbent's rollouts was confirmed."""
    run.set_params(editors={"kind": "evolving:TRUNCATING"}, promotion={"margin": 0.0})
    one = next(each for each in flags(run) if each["of"] == "pair r000-seed")
    run.ok("coevo", "audit", "confirm", one["id"], "--reason", "it printed the grader's answer")
    iterate(run)
    promotion = json.loads(run.ok("git", "show", "evo/evolution:round.json"))["promotion"]
    assert promotion["promoted"] and promotion["gain"] == pytest.approx(1 / 12)


def test_rejected_flags_leave_the_score(run: RunRepository) -> None:
    before = facts(run, PAIR)
    own = [each["id"] for each in flags(run) if each["of"] == "pair r000-seed"]
    for one in own:
        run.ok("coevo", "audit", "reject", one, "--reason", "harmless")
    after = facts(run, PAIR)
    assert after["score"] == before["score"] and "recorded_score" not in after
    left = {each["id"] for each in flags(run, "--status", "open")}
    assert left and not left & set(own)


def test_an_evaluation_honours_verdicts_on_rollouts_it_finds_again(run: RunRepository) -> None:
    """The test's rollouts are the evaluation's first executions: they aren't run again, and what
    was confirmed of them counts there, too; so does a verdict that comes later."""
    first, second, *_ = [each for each in flags(run) if each["of"] == "test 1"]
    before = json.loads(run.ok("coevo", "evaluate", "--json"))["versions"][0]
    run.ok("coevo", "audit", "confirm", first["id"], "--reason", "copied the answer")
    done = run.run("coevo", "evaluate", "--json")
    after = json.loads(done.stdout)["versions"][0]
    assert after["commit"] == before["commit"], "archived once"
    assert (before["cheats"], after["cheats"]) == (0, 1)
    assert after["outcome"]["score"] == pytest.approx(before["outcome"]["score"] - 1 / 18)
    run.ok("coevo", "audit", "scan", "evaluation/1")
    known = {e["task"]: e for e in flags(run) if e["of"] == "evaluation 1"}
    assert known[first["task"]]["status"] == "confirmed"
    assert known[first["task"]]["verdicts"][0]["by"] == "carried"
    assert facts(run, "evaluation/1")["score"] == after["outcome"]["score"]
    run.ok("coevo", "audit", "confirm", second["id"], "--reason", "copied it, too")
    assert facts(run, "evaluation/1")["audit"]["confirmed"] == 2
    run.ok("coevo", "audit", "reject", first["id"], "--reason", "on second thought, no")
    assert facts(run, "evaluation/1")["audit"]["confirmed"] == 1


def test_a_language_model_settles_flags_and_a_person_overrules_it(run: RunRepository) -> None:
    asked: list[Request] = []

    def script(request: Request) -> Answer:
        asked.append(request)
        cheated = len(asked) % 2 == 1
        return Answer("", [("verdict", {"cheated": cheated, "reason": f"turn 1, {len(asked)}"})])

    count = len(flags(run))
    with ScriptedEndpoint(script, key=CANARY, models=[MODEL]) as server:
        run.set_params(
            llm={"base_url": server.url, "model": "other", "api_key_env": "LLM_KEY"},
            audit={"model": MODEL},
        )
        done = told(run, ["coevo", "audit", "judge", "--json"], LLM_KEY=CANARY)
    assert done.returncode == 0, done.stderr
    assert len(asked) == count and all(r.body["model"] == MODEL for r in asked)
    assert f"cat {GRADER}" in asked[0].prompt and "Write the result of" in asked[0].prompt
    judged = flags(run)
    assert {each["verdicts"][0]["by"] for each in judged} == {f"model {MODEL}"}
    assert {each["status"] for each in judged} == {"confirmed", "rejected"}
    wrong = next(each for each in judged if each["status"] == "confirmed")
    run.ok("coevo", "audit", "reject", wrong["id"], "--reason", "it looked at its own file")
    [now] = [each for each in flags(run) if each["id"] == wrong["id"]]
    assert now["status"] == "rejected" and len(now["verdicts"]) == 2
    costs = json.loads(run.ok("coevo", "costs", "--json"))
    assert [(row["role"], row["calls"]) for row in costs["rows"]] == [("audit", count)]


def test_what_is_wrong_is_said(run: RunRepository) -> None:
    assert "audit list" in run.fails("coevo", "audit", "confirm", "beef", "--reason", "x", code=4)
    done = run.run("coevo", "audit", "confirm", flags(run)[0]["id"], "--reason", " ")
    assert done.returncode == 2 and "--reason" in done.stderr
    assert run.run("coevo", "audit", "confirm", flags(run)[0]["id"]).returncode == 2
    assert "llm.base_url" in run.fails("coevo", "audit", "judge", code=2)


def test_no_round_reads_a_test_s_audit(run: RunRepository) -> None:
    """A confirmed rollout of the test split changes the test's score and no pair's."""
    before = facts(run, PAIR)["score"]
    tested = next(each for each in flags(run) if each["of"] == "test 1")
    run.ok("coevo", "audit", "confirm", tested["id"], "--reason", "copied the answer")
    assert facts(run, PAIR)["score"] == before
    assert facts(run, "test/1")["recorded_score"] > facts(run, "test/1")["score"]
    tree = run.ok("git", "ls-tree", "-r", "--name-only", "evo/evolution")
    assert "audit" not in tree
