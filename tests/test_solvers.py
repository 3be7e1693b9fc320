"""Outside coding agents on the same tasks as harnesses: by a command, and the real Codex CLI."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from runs import TESTS, RunRepository, environment
from session_runs import needs_sandbox, processes, told
from shell_domain import GRADER
from shell_runs import shell_run

from engine.context import open_context
from engine.domains.terminal.domain import problem
from engine.llm.scripted import Answer, Request, ScriptedEndpoint
from engine.observer import Silent
from engine.params import load
from engine.testing import opened

KEY = "sk-canary-0ddba11aaa"
MODEL = "scripted"
SEED_LINES = len((TESTS.parent / "seed_harnesses/general/harness.py").read_text().splitlines())
NOTE = "world note " + quote(json.dumps({"text": "it's 3"}))


def evaluated(run: RunRepository, url: str, *options: str, **extra: str) -> dict[str, Any]:
    run.set_params(llm={"base_url": url, "model": MODEL, "api_key_env": "LLM_KEY"})
    done = told(run, ["coevo", "evaluate", *options, "--json"], LLM_KEY=KEY, **extra)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sums(request: Request) -> Answer:
    """Looks at the grader before products, and calls the task's tool before differences."""
    found = re.search(r"result of (\d+) ([+*-]) 3", request.prompt)
    assert found is not None
    number, sign = int(found[1]), found[2]
    first = {"*": f"cat {GRADER}", "-": NOTE}.get(sign)
    if first and not request.results:
        return Answer("I look.", [("bash", {"command": first})])
    if sign == "-":
        assert request.results[0] == "noted: it's 3\n[exit 0]", request.results
    if len(request.results) > bool(first):
        return Answer("It is written.")
    gold = eval(f"{number} {sign} 3")
    return Answer("", [("bash", {"command": f"echo {gold} > answer.txt"})])


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRepository, dict[str, Any], int]:
    needs_sandbox()
    base = tmp_path_factory.mktemp("solvers")
    agent = TESTS / "solver_agent.py"
    editors = {"kind": "command", "command": ["python3", str(agent), "{prompt_file}"]}
    run = shell_run(base, editors=editors, splits={"train": 4, "validation": 4, "test": 6})
    run.set_params(inheritance={"preliminary": 2})
    run.ok("coevo", "stage", "open")
    asked: list[Request] = []

    def script(request: Request) -> Answer:
        asked.append(request)
        return sums(request)

    with ScriptedEndpoint(script, key=KEY, models=[MODEL]) as server:
        found = evaluated(run, server.url, "--agent", "command")
        again = evaluated(run, server.url, "--agent", "command")
    assert again["versions"] == found["versions"]
    return run, found, len(asked)


def test_an_agent_is_measured_beside_the_versions(
    solved: tuple[RunRepository, dict[str, Any], int],
) -> None:
    run, found, calls = solved
    seed, agent = found["versions"]
    assert (seed["version"]["label"], agent["version"]["agent"]) == ("seed", "command")
    assert agent["lines"] is None and seed["lines"] == SEED_LINES
    assert agent["outcome"]["score"] == 1.0 and agent["outcome"]["tasks"] == 6
    rows = {row["family"]: row for row in agent["report"]["families"]}
    assert rows["differences"]["ood"] and rows["sums"]["ends"] == {"answered": 2}
    assert calls == 2 * 2 + 2 * 3 + 2 * 3, "each session once: the journal has the rest"
    costs = json.loads(run.ok("coevo", "costs", "--json"))
    assert [(row["role"], row["calls"]) for row in costs["rows"]] == [("solver", calls)]
    assert not processes("solver_agent.py")


def test_its_rollouts_are_archived_and_audited(
    solved: tuple[RunRepository, dict[str, Any], int],
) -> None:
    run, _, _ = solved
    form = "--format=%(trailers:key=Coevo-Agent,valueonly)"
    assert run.ok("git", "log", "-1", form, "refs/coevo/evo/evaluation/2").strip() == "command"
    scanned = json.loads(run.ok("coevo", "audit", "scan", "evaluation/2", "--json"))
    assert {f["findings"][0]["rule"] for f in scanned["flags"]} == {"answers"}
    assert len(scanned["flags"]) == 2, "both products"
    for path in run.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert KEY.encode() not in path.read_bytes(), path


def test_a_dead_endpoint_is_no_score(tmp_path: Path) -> None:
    needs_sandbox()
    agent = TESTS / "solver_agent.py"
    editors = {"kind": "command", "command": ["python3", str(agent), "{prompt_file}"]}
    run = shell_run(tmp_path, editors=editors, splits={"train": 4, "validation": 4, "test": 3})
    run.ok("coevo", "stage", "open")
    assert "llm.base_url" in run.fails("coevo", "evaluate", "--agent", "command", code=2)
    url = "http://127.0.0.1:9/v1"
    run.set_params(llm={"base_url": url, "model": MODEL, "api_key_env": "LLM_KEY"})
    done = told(run, ["coevo", "evaluate", "--agent", "command"], LLM_KEY=KEY)
    assert done.returncode == 6, done.stderr
    assert "error: solver" in done.stderr and "Traceback" not in done.stderr


def test_codex_without_a_binary_says_how_to_get_it(tmp_path: Path) -> None:
    run = shell_run(tmp_path, splits={"train": 4, "validation": 4, "test": 3})
    run.ok("coevo", "stage", "open")
    run.set_params(llm={"base_url": "http://127.0.0.1:9/v1", "model": MODEL})
    said = run.fails("coevo", "evaluate", "--agent", "codex", code=2)
    assert "npm install -g @openai/codex" in said


def test_codex_solves_terminal_tasks_in_their_own_shell(tmp_path: Path) -> None:
    """Driven by a scripted model that knows the reference solutions: the files it makes are graded
    in the task's world, and so are its calls of the task's tools."""
    needs_sandbox()
    found = shutil.which("codex")
    if found is None:
        pytest.skip("no codex on PATH (npm install -g @openai/codex)")
    run = shell_run(
        tmp_path,
        domain="terminal",
        splits={"train": 8, "validation": 8, "test": 8},
        limits={"wall_s": 60.0, "cpu_s": 60, "memory_mb": 512},
    )
    run.ok("coevo", "stage", "open")
    context = opened(open_context(run.folder, load(run.folder / "params.yaml"), Silent()))
    problems = {task.instruction: problem(task) for task in context.tasks("test")}

    def script(request: Request) -> Answer:
        own = next(p for said, p in problems.items() if said in request.prompt)
        steps = [own.solution]
        steps += [f"world {name} {quote(json.dumps(given))}" for name, given in own.solution_calls]
        done = len(request.results)
        if done == len(steps):
            return Answer("It is done.")
        return Answer("", [("exec_command", {"cmd": steps[done]})])

    path = f"{Path(found).parent}:{environment(run.home)['PATH']}"
    with ScriptedEndpoint(script, key=KEY, models=[MODEL]) as server:
        done = evaluated(run, server.url, "--agent", "codex", PATH=path)
    agent = done["versions"][1]
    rows = {row["family"]: row["score"]["mean"] for row in agent["report"]["families"]}
    assert rows["files"] == 1.0 and set(rows.values()) == {1.0}, rows
