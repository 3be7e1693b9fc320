"""A round whose Curator and inheritance ask a language model over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from llm_roles import IDEAS, MODEL, ask, play
from runs import RunRepository

from engine.archive_view import FixedView
from engine.context import Context, open_context
from engine.curator.rollouts import WithRollouts
from engine.editors import mechanisms
from engine.editors.sessions.rollouts import summary
from engine.errors import ArchiveError
from engine.llm.ledger import entries, ledger_path
from engine.llm.scripted import Answer, Refusal, ScriptedEndpoint
from engine.observer import Silent
from engine.params import load


@pytest.fixture(scope="module")
def asked(
    one_round: RunRepository, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunRepository, ScriptedEndpoint]]:
    """Round 2, with both roles asking."""
    run = one_round.copied(tmp_path_factory.mktemp("asked") / "base")
    with ScriptedEndpoint(play, models=[MODEL]) as endpoint:
        ask(run, endpoint)
        run.ok("dvc", "repro")
        yield run, endpoint


def record(run: RunRepository, name: str) -> dict[str, Any]:
    return dict(json.loads(run.ok("git", "show", f"evo/evolution:{name}")))


def test_the_rounds_record_holds_inspections_classes_and_briefs(asked) -> None:
    run, _ = asked
    assert run.round() == 2
    evidence = record(run, "evidence.json")
    assert not evidence["notice"]
    assert [each["action"] for each in evidence["evidence"]["inspections"]] == ["index", "stop"]
    assert [each["hypothesis"] for each in evidence["briefs"]] == [said for _, said in IDEAS]
    failed = {each["id"] for each in record(run, "feedback.json")["failures"]}
    classes = evidence["classes"]
    assert len(classes) == min(3, len(failed)) > 0
    assert all(c["count"] == len(set(c["samples"])) for c in classes)
    assert {id for each in classes for id in each["samples"]} == failed


def test_inheritance_proposed_within_its_budget_and_was_sent_back(asked) -> None:
    run, endpoint = asked
    inherited = record(run, "round.json")["candidates"]
    slots = {each["slot"] for each in inherited["candidates"]}
    for slot in slots:
        steps = [d for d in inherited["decisions"] if d["slot"] == slot]
        assert [each["action"] for each in steps] == ["propose", "propose"]
        assert "on 4 tasks of V" in steps[0]["result"]
    assert all(each["preliminary"] for each in inherited["candidates"])
    mixtures = [each for each in inherited["candidates"] if len(each["alpha"]) == 2]
    assert slots and len(mixtures) == len(slots)
    made = run.ok("git", "show", f"{mixtures[0]['checkpoint']}:provenance.json")
    assert json.loads(made)["lambda"] == 1.25
    refused = [r for r in endpoint.requests if "the weights sum to 0.9" in r.text]
    assert refused and "notice" not in inherited and "given up" not in inherited["note"]


def test_calls_are_counted_by_role_and_session(asked) -> None:
    run, endpoint = asked
    counted = entries(ledger_path(run.folder, "evo"))
    assert len(counted) == len(endpoint.requests)
    assert {each.role for each in counted} == {"curator", "inheritance"}
    assert sum(each.role == "curator" for each in counted) == 5
    assert {each.round for each in counted} == {2}
    assert {each.session for each in counted} >= {"", "k1"}
    assert all(each.usage.usd > 0 for each in counted)


def test_a_clone_shows_the_costs_that_the_commit_keeps(asked) -> None:
    run, endpoint = asked
    facts = json.loads(run.ok("coevo", "costs", "--json"))
    assert facts["total"]["calls"] == len(endpoint.requests)
    assert [(row["round"], row["role"]) for row in facts["rows"]] == [
        (2, "curator"),
        (2, "inheritance"),
    ]
    total = facts["total"]
    tokens = total["prompt_tokens"] + total["completion_tokens"]
    form = "--format=%(trailers:key=Coevo-Cost-Llm-{},valueonly,separator=)"
    read = {
        name: float(run.ok("git", "log", "-1", form.format(name), "evo/evolution"))
        for name in ("Calls", "Tokens", "Usd")
    }
    assert read == {"Calls": total["calls"], "Tokens": tokens, "Usd": total["usd"]}

    run.ok("git", "clone", "-q", "--branch", "main", str(run.folder), "clone", cwd=run.base)
    clone = run.base / "clone"
    run.ok("git", "fetch", "-q", "origin", "evo/evolution:evo/evolution", cwd=clone)
    (clone / "params.yaml").write_bytes((run.folder / "params.yaml").read_bytes())
    assert json.loads(run.ok("coevo", "costs", "--json", cwd=clone)) == facts
    assert f"{total['calls']} llm_calls" in run.ok("coevo", "status", cwd=clone).replace("\n", " ")


def test_no_reference_answer_is_in_any_request(asked) -> None:
    run, endpoint = asked
    data = Path(run.base / "homes")
    answers = {
        answer
        for path in sorted(data.rglob("*.jsonl"))
        for answer in re.findall(r"\w+\.\w+\.turn_(?:on|off)\(\)", path.read_text())
    }
    assert answers
    sent = "".join(request.text for request in endpoint.requests)
    assert not [answer for answer in answers if answer in sent]


def test_failed_rollouts_can_be_read_and_accepted_answers_cannot(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    context = open_context(run.folder, load(run.folder / "params.yaml"), Silent())
    plain = FixedView(context, 2, mechanisms)
    view = WithRollouts(plain, context, 2)
    [incumbent] = [each.oid for each in view.index() if each.incumbent]
    text = view.read(incumbent, "rollouts.md").decode()
    scores = [score for (score,) in best_scores(context, incumbent).values()]
    assert text.startswith(f"12 rollouts, {scores.count(1.0)} of them right; the others:")
    shown = set(re.findall(r"^## ([0-9a-f]{12}): score 0,", text, re.MULTILINE))
    assert shown == {id for id, (score,) in best_scores(context, incumbent).items() if score < 1}
    assert len(re.findall("^answer: ", text, re.MULTILINE)) == len(shown) > 0
    assert set(view.files(incumbent)) == {*plain.files(incumbent), "rollouts.md"}
    with pytest.raises(ArchiveError, match="no harness of this round's view"):
        view.read("f" * 40, "rollouts.md")


def test_an_accepted_rollout_that_called_before_it_asked_can_be_read(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    context = open_context(run.folder, load(run.folder / "params.yaml"), Silent())
    pair = next(iter(context.archive.pairs()))
    kept = run.folder / ".coevo" / "rollouts" / context.params.run / f"{pair.label}.jsonl"
    trajectory = {
        "events": [
            {"kind": "call", "turn": 0, "name": "look", "arguments": {}, "observation": "secret"},
            {"kind": "request", "turn": 1, "messages": [{"role": "user", "content": "secret"}]},
            {"kind": "reply", "turn": 1, "message": {"content": "secret"}, "violation": ""},
        ],
        **{"end": "answered", "answer": "secret", "turns": 1, "error": ""},
        **{"prompt_tokens": 3, "completion_tokens": 2},
    }
    record = {"task": "0" * 12, "score": 0.5, "failure": "incomplete", "trajectory": trajectory}
    kept.write_text(json.dumps(record) + "\n")
    text = summary(context, pair)
    assert "secret" not in text and "calls: look x1" in text
    assert "asked: [left out: it earned a score]" in text


def best_scores(context: Context, harness: str) -> Mapping[str, tuple[float, ...]]:
    outcomes = [context.outcome(pair) for pair in context.archive.pairs(harness=harness)]
    return max(outcomes, key=lambda outcome: outcome.scalar).by_task


def test_nonsense_gives_way_to_the_embedded_curator_with_a_notice(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    with ScriptedEndpoint(lambda _: Answer("I would rather talk.")) as endpoint:
        ask(run, endpoint, api="responses")
        for stage in ("open", "observe"):
            run.ok("coevo", "stage", stage)
        done = run.run("coevo", "stage", "curate")
    assert done.returncode == 0 and "curator: the language model was given up" in done.stderr
    evidence = json.loads((run.folder / "round" / "evidence.json").read_text())
    assert "no tool was called" in evidence["notice"] and len(evidence["briefs"]) == 3
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (Refusal(401, "no such key"), "check the key in the variable that llm.api_key_env names"),
        (Refusal(404, "no such model"), "check llm.model ('scripted')"),
        (Refusal(400, "maximum context length is 10", "context_length_exceeded"), "llm.context"),
    ],
)
def test_a_refusal_ends_the_stage_with_role_cause_and_how_to_go_on(
    one_round: RunRepository, tmp_path: Path, refusal: Refusal, said: str
) -> None:
    run = one_round.copied(tmp_path / "base")
    with ScriptedEndpoint(lambda _: refusal) as endpoint:
        ask(run, endpoint)
        for stage in ("open", "observe"):
            run.ok("coevo", "stage", stage)
        error = run.fails("coevo", "stage", "curate", code=6)
    assert error.startswith("error: curator: ") and said in error
    assert "what had finished is kept, `dvc repro` goes on from there" in error


def test_a_cap_stops_cleanly_and_a_higher_one_goes_on(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    with ScriptedEndpoint(play) as endpoint:
        ask(run, endpoint)
        for stage in ("open", "observe"):
            run.ok("coevo", "stage", stage)
        run.set_params(curator={"kind": "llm", "caps": {"calls": 3}})
        error = run.fails("coevo", "stage", "curate", code=10)
        assert "3 of 3 calls" in error and "raise curator.caps.calls" in error
        run.set_params(curator={"kind": "llm", "caps": {"calls": 5}})
        run.ok("coevo", "stage", "curate")
    assert len(endpoint.requests) == 5, "none is asked again"
    assert not json.loads((run.folder / "round" / "evidence.json").read_text())["notice"]


def test_an_endpoint_that_isnt_named_is_found_before_anything_is_paid_for(
    fresh: RunRepository, tmp_path: Path
) -> None:
    run = fresh.copied(tmp_path / "base")
    run.set_params(inheritance={"kind": "llm", "preliminary": 4})
    error = run.fails("coevo", "stage", "open", code=2)
    assert "inheritance: llm.base_url is not set" in error
