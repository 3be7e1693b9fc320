"""The guide's example domain, taken from the page: it has all members, scores as it says, and a
whole round runs with it."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import BIN, TESTS, RunRepository, environment
from scripted import write_checkpoint

from engine.domains import Domain, Task
from engine.domains.registry import domain as find_domain
from engine.errors import DataError

GUIDE = Path(__file__).parents[1] / "docs" / "ADD_A_DOMAIN.md"
SIZES = {"train": 24, "validation": 12, "test": 10}


def written(folder: Path) -> Path:
    """The files that the guide shows, below ``folder``."""
    shown = re.findall(r"^`([\w/.]+)`:\n\n```python\n(.*?)^```", GUIDE.read_text(), re.M | re.S)
    for name, code in shown:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code)
    assert {name for name, _ in shown} == {
        "conversion/__init__.py",
        "conversion/harness/harness.py",
    }
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("guide"))


@pytest.fixture(scope="module")
def conversion(place: Path) -> Iterator[Domain]:
    sys.path.insert(0, str(place))
    yield find_domain("conversion:DOMAIN")
    sys.path.remove(str(place))
    sys.modules.pop("conversion")
    importlib.invalidate_caches()


def test_it_has_every_member_of_a_domain(conversion: Domain) -> None:
    members = {name for name in vars(Domain) if not name.startswith("_")} | set(
        Domain.__annotations__
    )
    assert members >= {"load", "generate", "verify", "seed_harness", "direction"}
    assert [name for name in members if not hasattr(conversion, name)] == []


def test_generated_splits_are_repeatable_and_disjoint(conversion: Domain) -> None:
    splits = conversion.generate("salt", 1, SIZES)
    parts = [splits.train, splits.validation, splits.test]
    assert [len(part) for part in parts] == [24, 12, 10]
    assert len({task.content for part in parts for task in part}) == 46
    assert conversion.generate("salt", 1, SIZES) == splits
    assert conversion.generate("pepper", 1, SIZES) != splits


@pytest.mark.parametrize(
    ("answer", "score", "failure"),
    [
        (3048, 1.0, ""),
        (3048.5, 1.0, ""),
        (10000, 0.0, "wrong_number"),
        ("3048", 0.0, "no_number"),
        (True, 0.0, "no_number"),
        (None, 0.0, "no_number"),
    ],
)
def test_verdicts(conversion: Domain, answer: Any, score: float, failure: str) -> None:
    task = Task("t", "How many metres are 10000 feet?", {}, {"gold": 3048.0}, "t")
    verdict = conversion.verify(task, answer)
    assert (verdict.score, verdict.failure) == (score, failure)
    assert conversion.metrics([(task, verdict)]) == {"score": score}


def test_its_world_answers_and_keeps_the_first_answer(conversion: Domain) -> None:
    world = conversion.world(conversion.generate("salt", 1, SIZES).train[0])

    async def episode() -> list[str]:
        return [
            await world.call("metres", {"unit": "feet"}),
            await world.call("metres", {"unit": "parsecs"}),
            await world.call("final_answer", {"value": 1}),
            await world.call("final_answer", {"value": 2}),
        ]

    said = asyncio.run(episode())
    assert said[0] == "0.3048" and said[2] == "recorded"
    assert said[1].startswith("error: ") and said[3].startswith("error: ")
    assert world.answer == 1


def test_files_are_loaded_and_a_bad_row_is_named(conversion: Domain, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        conversion.load(tmp_path, 0, SIZES)
    rows = [json.dumps({"amount": n, "unit": "feet", "to": "metres"}) for n in (1, 2, 3)]
    (tmp_path / "lengths.jsonl").write_text("\n".join([*rows[:2], '{"amount": 4}', rows[2]]))
    sizes = {"train": 1, "validation": 1, "test": 1}
    with pytest.raises(DataError, match=r"lengths\.jsonl:3: expected amount, unit, to"):
        conversion.load(tmp_path, 0, sizes)
    loaded: Any = conversion.load
    splits = loaded(tmp_path, 0, sizes, skip_bad_rows=True)
    assert len(splits.skipped) == 1 and ":3:" in splits.skipped[0]
    golds = sorted(t.private["gold"] for t in (*splits.train, *splits.validation, *splits.test))
    assert golds == pytest.approx([0.3048, 0.6096, 0.9144])


def test_the_harness_passes_the_smoke_test_as_the_guide_runs_it(place: Path) -> None:
    command = [sys.executable, "-m", "kernel.smoke", "conversion/harness"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("SMOKE OK\n"), done.stdout + done.stderr


def test_init_takes_it_by_its_path(place: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "home") | {"PYTHONPATH": str(place)}
    (tmp_path / "home").mkdir()
    command = [str(BIN / "coevo"), "init", "my-run", "--domain", "conversion:DOMAIN"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "domain: conversion:DOMAIN" in (tmp_path / "my-run" / "params.yaml").read_text()


def test_a_whole_round_runs_with_it(place: Path, tmp_path: Path) -> None:
    path = ("env", f"PYTHONPATH={place}:{TESTS}")
    run = RunRepository(tmp_path / "base", domain="conversion:DOMAIN", data=None, rounds=1)
    checkpoint = write_checkpoint(tmp_path / "checkpoint", 0.4, mark="seed")
    serving = {"backend": "scripted_conversion:ConversionServer", "concurrency": 6}
    run.set_params(serving=serving, model={"seed": str(checkpoint)})
    checked = json.loads(run.ok(*path, "coevo", "data", "check", "--json"))
    assert checked["disjoint"] and checked["source"] == "generated"
    assert set(checked["splits"]["train"]["strata"]) == {"from", "to"}
    run.ok(*path, "dvc", "repro")
    facts = json.loads(run.ok(*path, "coevo", "status", "--json"))
    assert facts["round"] == 1
    pairs = {p["name"]: p for p in json.loads(run.ok(*path, "coevo", "pairs", "--json"))}
    assert {"r000-seed", "r001-adapted"} <= pairs.keys()
    assert 0 < pairs["r000-seed"]["score"] < pairs["r001-adapted"]["score"], "skill was trained"
    tested = json.loads(run.ok(*path, "coevo", "test", "evo/evolution", "--json"))
    assert tested["outcome"]["tasks"] == SIZES["test"]
    log = run.ok("git", "log", "--format=%s", "evo/harness/r001-k1")
    assert "Archive the seed harness of conversion" in log
