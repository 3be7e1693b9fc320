"""Run repositories whose editors are sessions of a scripted agent or of a scripted model."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import TESTS, RunRepository, environment

from engine.llm.scripted import Answer, Request

Plan = Mapping[str, Sequence[str]]


def needs_sandbox() -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on PATH (apt-get install bubblewrap)")


def planned(base: Path, offspring: int, plan: Plan, **editors: Any) -> RunRepository:
    """A run whose sessions do what ``plan`` says; see ``session_agent``."""
    needs_sandbox()
    path = base.parent / f"{base.name}-plan.json"
    base.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plan))
    command = ["python3", str(TESTS / "session_agent.py"), str(path)]
    settings = {"kind": "command", "command": command, "disk_mb": 16, "processes": 64}
    return RunRepository(base, offspring=offspring, editors={**settings, **editors})


def replan(run: RunRepository, plan: Plan) -> None:
    (run.base.parent / f"{run.base.name}-plan.json").write_text(json.dumps(plan))


def stages(run: RunRepository, *names: str) -> None:
    for name in names:
        run.ok("coevo", "stage", name)


def edit(run: RunRepository, **extra: str) -> subprocess.CompletedProcess[str]:
    """The edit stage with further variables in its environment."""
    return told(run, ["coevo", "stage", "edit"], **extra)


def told(
    run: RunRepository, command: Sequence[str], **extra: str
) -> subprocess.CompletedProcess[str]:
    """A command with further variables in its environment."""
    return subprocess.run(
        command,
        cwd=run.folder,
        env={**environment(run.home), **extra},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def offspring(run: RunRepository) -> dict[str, dict[str, Any]]:
    """The edit stage's record by slot."""
    record = json.loads((run.folder / "round" / "offspring.json").read_text())
    return {each["slot"]: each for each in record["offspring"]}


def sessions(run: RunRepository, number: int = 1) -> Path:
    return run.folder / ".coevo" / "sessions" / "evo" / f"r{number:03d}"


def scripted_by_plan(tool: str, argument: str, plan: Path) -> Callable[[Request], Answer]:
    """A model that has ``session_agent`` do what the plan says by one call of ``tool``, then says
    that it is done."""

    def script(request: Request) -> Answer:
        if request.results:
            return Answer("Done.", usage=(100, 0, 10))
        command = f"python3 {TESTS / 'session_agent.py'} {plan}"
        return Answer("I begin.", [(tool, {argument: command})], usage=(1000, 0, 100))

    return script


def processes(mark: str) -> list[str]:
    """Processes of this machine with ``mark`` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in words:
            found.append(words)
    return found
