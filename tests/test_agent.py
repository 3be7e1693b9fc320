"""A checked-out agent: the pair and its round's parameters, and one line where it can't run."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from runs import RunRepository

from engine import agent
from engine.context import open_context
from engine.domains.smart_home.domain import SmartHome
from engine.observer import Silent
from engine.params import Params, load


@pytest.fixture
def folder(one_round: RunRepository, tmp_path: Path) -> Path:
    run = one_round.copied(tmp_path / "base")
    run.set_params(sampling={"max_tokens": 7}, sandbox="none")
    run.ok("coevo", "use", "evo/evolution", str(tmp_path / "my agent"))
    return tmp_path / "my agent"


def test_it_keeps_the_parameters_of_its_round(one_round: RunRepository, folder: Path) -> None:
    then = load(one_round.folder / "params.yaml").sampling.max_tokens
    params = json.loads((folder / "agent.json").read_text())["params"]
    assert params["sampling"]["max_tokens"] == then != 7 and params["sandbox"] == "none"


def test_what_stops_it_is_one_line_and_an_exit_code(folder: Path) -> None:
    good = (folder / "agent.json").read_text()
    settings = json.loads(good)
    serving = {"backend": "external", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    broken = {
        3: [settings | {"params": {"ofspring": 1}}, {"weights": "w"}],
        6: [settings | {"params": settings["params"] | {"serving": serving}}],
    }
    for code, cases in broken.items():
        for case in cases:
            (folder / "agent.json").write_text(json.dumps(case))
            done = subprocess.run(
                [folder / "run.sh", "Turn on the light."],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == code, done.stderr
            assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    (folder / "agent.json").unlink()
    assert agent.main(str(folder), "Turn on the light.") == 3


def test_the_path_of_python_is_quoted(
    one_round: RunRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/echo it's $HOME")
    run = one_round.copied(tmp_path / "base")
    context = open_context(run.folder, load(run.folder / "params.yaml"), Silent())
    agent.check_out(context, context.archive.pairs()[0].oid, tmp_path / "agent")
    done = subprocess.run(
        [tmp_path / "agent" / "run.sh"], capture_output=True, text=True, check=False
    )
    assert "/bin/echo it's $HOME" in done.stderr and done.returncode == 127


class Narrow(SmartHome):
    """A domain with a limit of its own."""

    limits: Mapping[str, int] = {"output_bytes": 40}


NARROW = Narrow()
PARROT = """
async def run(instruction, model, world):
    seen = await world.call("list_methods", {})
    await world.call("final_answer", {"commands": seen})
"""


def test_it_has_the_limits_that_its_domain_was_measured_with(tmp_path: Path) -> None:
    [task] = NARROW.generate("salt", 0, {"train": 1, "validation": 0, "test": 0}).train
    world = asdict(NARROW.practice(task, task.instruction))
    (tmp_path / "world.json").write_text(json.dumps(world))
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "harness.py").write_text(PARROT)
    serving = {"backend": "external", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    params = Params.model_validate({"domain": "test_agent:NARROW", "serving": serving})
    agent.write_settings(tmp_path, "", "w", params)
    assert "[cut: " in asyncio.run(agent.answer(tmp_path, "Turn on the light."))
