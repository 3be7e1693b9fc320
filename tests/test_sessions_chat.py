"""Sessions with a model behind the gateway, by our own chat agent: work, costs, and what goes
wrong with endpoints and budgets."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event

import pytest
from runs import TESTS, RunRepository, environment, wait_for
from session_runs import edit, needs_sandbox, offspring, replan, scripted_by_plan, sessions, stages

from engine.llm.scripted import Answer, Refusal, Request, Script, ScriptedEndpoint, Silence

KEY = "sk-canary-0badcafe55"
MODEL = "scripted"
Plan = dict[str, Sequence[str]]


@pytest.fixture(scope="module")
def curated(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """Before the edit stage of round 1; to be copied."""
    needs_sandbox()
    run = RunRepository(tmp_path_factory.mktemp("chat") / "run", offspring=2)
    stages(run, "open", "observe", "curate")
    return run


class Case:
    """A copy of the run with an endpoint."""

    def __init__(self, curated: RunRepository, base: Path, script: Script, plan: Plan) -> None:
        self.run = curated.copied(base / "run")
        replan(self.run, plan)
        self.plan = base / "run-plan.json"
        self.server = ScriptedEndpoint(script, key=KEY, models=[MODEL])

    def edit(self, key: str = KEY, model: str = MODEL, **params: object) -> str:
        """The stage's error, '' when it went well."""
        self.configure(model, **params)
        done = edit(self.run, LLM_KEY=key)
        assert "Traceback" not in done.stderr, done.stderr
        assert KEY not in done.stdout + done.stderr
        return "" if done.returncode == 0 else f"{done.returncode} {done.stderr}"

    def started(self, **params: object) -> subprocess.Popen[str]:
        """The stage, begun, with the key in its environment."""
        self.configure(MODEL, **params)
        return subprocess.Popen(
            ["coevo", "stage", "edit"],
            cwd=self.run.folder,
            env={**environment(self.run.home), "LLM_KEY": KEY},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def configure(self, model: str, **params: object) -> None:
        mounts = [str(TESTS / "session_agent.py"), str(self.plan)]
        editors = {"kind": "chat", "mounts": mounts, **params}
        caps = editors.pop("round_caps", {})
        prices = {MODEL: {"input": 2.0, "output": 8.0}}
        llm = {"base_url": self.server.url, "model": model, "api_key_env": "LLM_KEY"}
        self.run.set_params(editors=editors, llm={**llm, "prices": prices, "caps": caps})


def by_plan(curated: RunRepository, base: Path, plan: Plan) -> Case:
    script = scripted_by_plan("run", "command", base / "run-plan.json")
    return Case(curated, base, script, plan)


def costs(run: RunRepository) -> list[dict[str, object]]:
    lines = (run.folder / ".coevo" / "costs" / "evo.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_chat_model_edits_and_is_counted(curated: RunRepository, tmp_path: Path) -> None:
    case = by_plan(
        curated, tmp_path, {"k1": ["good"], "k2": ["good", "broken"], "k2-repair": ["mended"]}
    )
    with case.server:
        assert case.edit() == ""
    found = offspring(case.run)
    assert {slot: each["status"] for slot, each in found.items()} == {"k1": "valid", "k2": "valid"}
    assert found["k2"]["repaired"] and found["k1"]["editor"] == "chat"
    record = json.loads((case.run.folder / "round" / "offspring.json").read_text())
    assert record["cost"]["prompt_tokens"] == 3 * 1100, "three sessions of two calls"
    assert record["cost"]["completion_tokens"] == 3 * 110
    ended = [line for line in costs(case.run) if "usage" in line]
    assert len(ended) == 6
    said = (sessions(case.run) / "k1" / "record" / "transcript.jsonl").read_text()
    assert "I begin." in said and KEY not in said
    shown = json.loads((sessions(case.run) / "k1" / "record" / "session.json").read_text())
    assert shown["usage"]["usd"] == pytest.approx((1100 * 2 + 110 * 8) / 1e6)
    assert "editors" in case.run.ok("coevo", "costs")


def test_a_killed_sessions_calls_count_when_it_is_run_again(
    curated: RunRepository, tmp_path: Path
) -> None:
    work, halted = scripted_by_plan("run", "command", tmp_path / "run-plan.json"), Event()

    def script(request: Request) -> Answer | Silence:
        if request.results and not halted.is_set():
            halted.set()
            return Silence()
        return work(request)

    case = Case(curated, tmp_path, script, {"k1": ["good"], "k2": ["good"]})
    with case.server:
        engine = case.started(parallel=1, turns=3)
        wait_for(halted.is_set)
        engine.kill()
        engine.communicate()
        assert case.edit(parallel=1, turns=3) == ""
    assert len(case.server.requests) == 3 + 2, "the first session has three calls in all"
    used = [line for line in costs(case.run) if "model" in line]
    assert [line["session"] for line in used] == ["k1"] * 3 + ["k2"] * 2
    found = offspring(case.run)
    assert {each["status"] for each in found.values()} == {"valid"}
    assert "3 of 3 calls" in " ".join(found["k1"]["remarks"]) and not found["k2"]["remarks"]
    kept = json.loads((sessions(case.run) / "k1" / "record" / "session.json").read_text())
    assert (kept["killed"]["calls"], kept["usage"]["calls"]) == (2, 1)


def test_the_file_tools_do_what_they_say(curated: RunRepository, tmp_path: Path) -> None:
    name = "/coevo/desk/candidate/made/text.md"
    steps = [
        ("write", {"path": name, "text": "one\ntwo\nthree\n"}),
        ("replace", {"path": name, "old": "two", "new": "2"}),
        ("replace", {"path": name, "old": "absent", "new": ""}),
        ("read", {"path": name, "lines": "2-3"}),
        ("list", {"path": "/coevo/desk/candidate/made"}),
        ("run", {"command": "echo $((6 * 7)); exit 3"}),
        ("fly", {}),
        ("read", "no json"),
        ("read", {"path": "/coevo/absent", "lines": "all"}),
    ]

    def script(request: Request) -> Answer:
        done = len(request.results)
        return Answer("", [steps[done]]) if done < len(steps) else Answer("Done.")

    case = Case(curated, tmp_path, script, {})
    with case.server:
        assert case.edit(parallel=1) == ""
    results = max((r.results for r in case.server.requests), key=len)
    assert results[:2] == ("written", "replaced")
    assert results[2] == "error: it stands there 0 times, not once"
    assert results[3] == "2\nthree"
    assert results[4] == name
    assert results[5] == "exit 3\n42\n"
    assert results[6].startswith("error: there is no tool 'fly'")
    assert results[7].startswith("error: ") and results[8].startswith("error: ")


def test_a_model_that_talks_nonsense_costs_its_offspring_alone(
    curated: RunRepository, tmp_path: Path
) -> None:
    def script(request: Request) -> Answer:
        if "# Brief k1" in request.text:
            return Answer("Colourless green ideas sleep furiously.")
        return scripted_by_plan("run", "command", tmp_path / "run-plan.json")(request)

    case = Case(curated, tmp_path, script, {"k2": ["good"]})
    with case.server:
        assert case.edit() == ""
    found = offspring(case.run)
    assert (found["k1"]["status"], found["k2"]["status"]) == ("rejected", "valid")
    assert "changed nothing" in found["k1"]["reasons"][0]
    assert any("ideas sleep furiously" in remark for remark in found["k1"]["remarks"])


def test_a_wrong_key_is_found_before_anything_begins(
    curated: RunRepository, tmp_path: Path
) -> None:
    case = by_plan(curated, tmp_path, {})
    with case.server:
        said = case.edit(key="sk-wrong-key-here")
    assert said.startswith("6 ") and "editors" in said and "401" in said
    assert "llm.api_key_env" in said and "nothing was begun" in said
    assert "sk-wrong-key-here" not in said
    assert not case.server.requests


def test_an_unknown_model_stops_the_round_and_keeps_what_was_done(
    curated: RunRepository, tmp_path: Path
) -> None:
    case = by_plan(curated, tmp_path, {"k1": ["good"], "k2": ["good"]})
    with case.server:
        said = case.edit(model="another")
        assert said.startswith("6 ") and "editors k1" in said and "404" in said
        assert "dvc repro" in said and "kept" in said
        assert case.run.refs() == curated.refs(), "nothing is archived"
        assert case.edit() == ""
    assert {each["status"] for each in offspring(case.run).values()} == {"valid"}


def test_a_prompt_over_the_context_is_the_endpoints_word(
    curated: RunRepository, tmp_path: Path
) -> None:
    def script(request: Request) -> Refusal:
        return Refusal(400, "maximum context length is 2048 tokens", "context_length_exceeded")

    case = Case(curated, tmp_path, script, {})
    with case.server:
        said = case.edit()
    assert said.startswith("6 ") and "editors k1" in said and "llm.context" in said


def test_a_dead_endpoint_is_no_score(curated: RunRepository, tmp_path: Path) -> None:
    case = by_plan(curated, tmp_path, {})
    case.server.server_close()
    said = case.edit()
    assert said.startswith("6 ") and "doesn't answer" in said and "llm.base_url" in said


def test_a_sessions_own_budget_ends_that_session(curated: RunRepository, tmp_path: Path) -> None:
    case = by_plan(curated, tmp_path, {"k1": ["good"], "k2": ["idle"]})
    with case.server:
        assert case.edit(turns=1) == ""
    found = offspring(case.run)
    assert found["k1"]["status"] == "valid", "what it left counts"
    assert found["k2"]["status"] == "rejected"
    assert (
        "budget of this session is spent"
        in (sessions(case.run) / "k1" / "record" / "log.txt").read_text()
    )
    assert len(case.server.requests) == 3, "k1, k2 and k2's repair: one call each"


def test_a_rounds_budget_stops_cleanly_and_goes_on(curated: RunRepository, tmp_path: Path) -> None:
    case = by_plan(curated, tmp_path, {"k1": ["good"], "k2": ["good"]})
    with case.server:
        said = case.edit(parallel=1, round_caps={"calls": 2})
        assert said.startswith("10 ") and "editors k2" in said and "llm.caps.calls" in said
        assert len(case.server.requests) == 2
        assert (sessions(case.run) / "k1" / "result.json").exists()
        assert case.edit(parallel=1, round_caps={"calls": 4}) == ""
    assert len(case.server.requests) == 4, "k1 was not run again"
    assert {each["status"] for each in offspring(case.run).values()} == {"valid"}


@contextmanager
def chat_only() -> Iterator[str]:
    """An endpoint that knows no path but Chat Completions, as many servers of models do."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(400 if self.path.endswith("/chat/completions") else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


def test_codex_is_refused_where_it_could_not_work(curated: RunRepository, tmp_path: Path) -> None:
    """Without the program, and with an endpoint that has no Responses API."""
    case = by_plan(curated, tmp_path, {})
    case.server.server_close()
    said = case.edit(kind="codex")
    assert said.startswith("2 ") and "npm install -g @openai/codex" in said
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "codex").write_text("#!/bin/sh\nexit 0\n")
    (programs / "codex").chmod(0o755)
    with chat_only() as url:
        case.run.set_params(llm={"base_url": url, "model": MODEL, "api_key_env": "LLM_KEY"})
        path = environment(case.run.home)["PATH"]
        done = edit(case.run, LLM_KEY=KEY, PATH=f"{programs}:{path}")
    assert done.returncode == 2
    assert "/v1/responses" in done.stderr and "editors.kind: chat" in done.stderr
