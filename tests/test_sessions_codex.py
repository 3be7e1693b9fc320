"""Whole rounds whose editors are the real Codex CLI, against a scripted endpoint."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import TESTS, RunRepository, environment, wait_for
from session_runs import (
    needs_sandbox,
    offspring,
    processes,
    replan,
    scripted_by_plan,
    sessions,
    told,
)

from engine.llm.ledger import entries, ledger_path
from engine.llm.scripted import Answer, Request, ScriptedEndpoint, Silence

KEY = "sk-canary-c0dec0de99"
MODEL = "scripted"
PLAN = {
    "k1": ["from_seed", "adopt", "edit", "report", "adopt_and_say"],
    "k2": ["good", "broken"],
    "k2-repair": ["mended"],
    "k3": ["good", "broken"],
    "k4": ["good", "leave"],  # then its model falls silent
}


class Codex:
    """A run whose editors are Codex. ``tell`` runs a command as a user with the key would."""

    def __init__(self, base: Path, url: str) -> None:
        self.run = RunRepository(base / "run", offspring=2)
        self.plan = base / "run-plan.json"
        self.url = url
        found = shutil.which("codex")
        assert found is not None
        self.path = f"{Path(found).parent}:{environment(self.run.home)['PATH']}"
        self.set()

    def set(self, **editors: object) -> None:
        mounts = [str(TESTS / "session_agent.py"), str(self.plan)]
        self.run.set_params(
            editors={"kind": "codex", "mounts": mounts, **editors},
            llm={"base_url": self.url, "model": MODEL, "api_key_env": "LLM_KEY"},
        )

    def tell(self, *command: str) -> subprocess.CompletedProcess[str]:
        done = told(self.run, command, LLM_KEY=KEY, PATH=self.path)
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture(scope="module")
def codex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Codex]:
    """After round 1 of two offspring, and round 2 of four, killed in the middle and resumed."""
    needs_sandbox()
    if shutil.which("codex") is None:
        pytest.skip("no codex on PATH (npm install -g @openai/codex)")
    with evolved(tmp_path_factory.mktemp("codex")) as made:
        yield made


@contextmanager
def evolved(base: Path) -> Iterator[Codex]:
    """The run that ``codex`` gives out."""
    by_plan = scripted_by_plan("exec_command", "cmd", base / "run-plan.json")

    def script(request: Request) -> Answer | Silence:
        silent = "# Brief k4" in request.prompt and request.results
        return Silence() if silent else by_plan(request)

    with ScriptedEndpoint(script, key=KEY, models=[MODEL]) as server:
        made = Codex(base, server.url)
        replan(made.run, {"k1": ["good", "invent"], "k2": ["idle"]})
        made.tell("dvc", "repro")
        made.run.set_params(offspring=4)
        made.set(wall_s=20.0)
        replan(made.run, PLAN)
        for stage in ("open", "observe", "curate"):
            made.tell("coevo", "stage", stage)
        killed(made)
        made.tell("dvc", "repro")
        yield made


def killed(codex: Codex) -> None:
    """The edit stage of round 2, killed while one session hangs and the others have ended."""
    engine = subprocess.Popen(
        ["coevo", "stage", "edit"],
        cwd=codex.run.folder,
        env={**environment(codex.run.home), "LLM_KEY": KEY, "PATH": codex.path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    folder = sessions(codex.run, 2)
    wait_for(lambda: all((folder / f"k{n}" / "result.json").exists() for n in (1, 2, 3)))
    wait_for(lambda: calls(codex.run).get("k4") == 2 and processes("sleep 3601"))
    os.kill(engine.pid, signal.SIGKILL)
    engine.wait()
    wait_for(lambda: not processes("sleep 3601") and not processes("session_agent.py"))


def calls(run: RunRepository) -> dict[str, int]:
    """How many calls each session of round 2 has made."""
    found = entries(ledger_path(run.folder, "evo"))
    return Counter(each.session for each in found if each.round == 2)


def parents(run: RunRepository, ref: str) -> list[str]:
    return run.ok("git", "log", "-1", "--format=%P", ref).split()


def commit(run: RunRepository, ref: str) -> str:
    return run.ok("git", "rev-parse", ref).strip()


def test_codex_offspring_have_the_right_parents(codex: Codex) -> None:
    run, found = codex.run, offspring(codex.run)
    assert {slot: (each["status"], each["repaired"]) for slot, each in found.items()} == {
        "k1": ("valid", False),
        "k2": ("valid", True),
        "k3": ("rejected", True),
        "k4": ("rejected", False),
    }, [each["reasons"] for each in found.values()]
    assert {each["editor"] for each in found.values()} == {"codex"}
    seed, donor = (commit(run, f"evo/harness/{name}") for name in ("r000-seed", "r001-k1"))
    assert parents(run, "evo/harness/r002-k1") == [seed, donor]
    assert len(parents(run, "evo/harness/r002-k2")) == 1
    assert "hung" in found["k4"]["reasons"][0]
    run.sound()


def test_counts_are_exact_after_the_kill(codex: Codex) -> None:
    """Each finished session once; the one that was met by the kill twice, and both are counted."""
    assert calls(codex.run) == {
        "k1": 2, "k2": 2, "k3": 2, "k2-repair": 2, "k3-repair": 2, "k4": 4,
    }  # fmt: skip
    refs = [ref for ref in codex.run.refs() if "r002-k" in ref]
    assert sum("/harness/" in ref for ref in refs) == 2
    assert sum("/rejected/" in ref for ref in refs) == 2
    assert codex.run.round() == 2


def test_codex_leaves_nothing_and_learns_no_key(codex: Codex) -> None:
    assert not processes("codex exec") and not processes("sleep 3600")
    for path in codex.run.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert KEY.encode() not in path.read_bytes(), path
