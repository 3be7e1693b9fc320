"""Generated homes and instructions: right answers, disjoint splits, the real format."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from smart_home_data import assert_beginnings_are_fair
from smart_home_solver import solve

from engine.domains import Task
from engine.domains.smart_home import DOMAIN, generator
from engine.domains.smart_home.catalogue import KINDS
from engine.domains.smart_home.row import normalised
from engine.domains.smart_home.scoring import ERROR, operations
from engine.domains.split import TaskSplits
from engine.errors import ConfigError

SIZES = {"train": 300, "validation": 150, "test": 150}


@pytest.fixture(scope="module")
def splits() -> TaskSplits:
    return DOMAIN.generate("a secret", 7, SIZES)


def everything(splits: TaskSplits) -> list[Task]:
    return [*splits.train, *splits.validation, *splits.test]


def by_split(splits: TaskSplits) -> list[list[Task]]:
    return [list(splits.train), list(splits.validation), list(splits.test)]


def test_a_solver_that_reads_only_the_tools_reproduces_every_reference(splits):
    for task in everything(splits):
        answer = solve(task.instruction, DOMAIN.world(task))
        verdict = DOMAIN.verify(task, answer)
        assert verdict.accepted, (task.instruction, answer, task.private["gold"])


def test_sizes_and_subsets_are_those_asked_for(splits):
    assert [len(tasks) for tasks in by_split(splits)] == [300, 150, 150]
    for tasks in by_split(splits):
        shares = Counter(task.private["type"] for task in tasks)
        assert {name: round(100 * n / len(tasks)) for name, n in shares.items()} == generator.MIX
        assert_beginnings_are_fair([task.private["type"] for task in tasks])


@pytest.mark.parametrize("aspect", ["id", "content", "home_id", "home", "instruction"])
def test_no_two_splits_share(splits, aspect):
    def values(tasks: list[Task]) -> set[str]:
        home = [task.private["home"] for task in tasks]
        return {
            "id": {task.id for task in tasks},
            "content": {task.content for task in tasks},
            "home_id": {str(each["home_id"]) for each in home},
            "home": {json.dumps([each["home_status"], each["method"]]) for each in home},
            "instruction": {normalised(task.instruction) for task in tasks},
        }[aspect]

    train, validation, test = (values(tasks) for tasks in by_split(splits))
    assert not train & validation and not train & test and not validation & test


def test_ids_and_problems_are_unique(splits):
    tasks = everything(splits)
    assert len({task.id for task in tasks}) == len(tasks)
    assert len({task.content for task in tasks}) == len(tasks)


def test_the_same_salt_and_seed_give_the_same_tasks(splits):
    assert DOMAIN.generate("a secret", 7, SIZES) == splits


def test_a_split_does_not_depend_on_the_sizes_of_the_others(splits):
    alone = DOMAIN.generate("a secret", 7, {"validation": 150})
    assert alone.validation == splits.validation and not alone.train and not alone.test


@pytest.mark.parametrize(("salt", "seed"), [("another secret", 7), ("a secret", 8)])
def test_another_salt_or_seed_gives_other_tasks(splits, salt, seed):
    other = DOMAIN.generate(salt, seed, SIZES)
    for mine, theirs in zip(by_split(splits), by_split(other), strict=True):
        problems = {(task.instruction, json.dumps(task.private["home"])) for task in mine}
        assert not problems & {(t.instruction, json.dumps(t.private["home"])) for t in theirs}
        assert not {task.id for task in mine} & {task.id for task in theirs}


def test_an_empty_salt_is_refused():
    with pytest.raises(ConfigError, match="salt"):
        DOMAIN.generate("", 1, {"train": 1})


def test_every_kind_of_operation_is_asked_for():
    tasks = DOMAIN.generate("wide", 1, {"train": 2500}).train
    asked = {
        ".".join(command.partition("(")[0].split(".")[-2:])
        for task in tasks
        for command in operations(task.private["gold"], gold=True)
    }
    switches = {f"{kind.name}.{operation}" for kind in KINDS for operation in kind.switches}
    setters = {
        f"{kind.name}.set_{trait.name}" for kind in KINDS for trait in kind.traits if trait.spoken
    }
    robot = {"vacuum_robot.set_mode", "vacuum_robot.set_cleaning_area"}
    assert asked == switches | setters | robot | {ERROR}


def test_relative_requests_and_both_reasons_for_an_error_occur(splits):
    texts = [task.instruction for task in everything(splits) if task.private["type"] == "VS"]
    assert any(re.search(r"by \d+( percent|%)", text) for text in texts)
    assert any(re.search(r"by \d+ degrees?", text) for text in texts)
    assert any(re.search(r"by \d levels?", text) for text in texts)
    assert any("maximum" in text for text in texts)


def test_values_stay_inside_the_bounds_that_the_home_declares(splits):
    checked = 0
    for task in everything(splits):
        for command in operations(task.private["gold"], gold=True):
            found = re.fullmatch(r"(\w+)\.(\w+)\.set_(\w+)\((\d+)\)", command)
            if found:
                room, device, name, value = found.groups()
                attributes = task.private["home"]["home_status"][room][device]["attributes"]
                bounds = attributes.get(name) or attributes[f" {name}"]
                assert int(bounds["lowest"]) <= int(value) <= int(bounds["highest"])
                checked += 1
    assert checked > 100


def test_the_real_loader_reads_what_the_generator_writes(tmp_path: Path):
    sizes = {"train": 60, "validation": 30, "test": 30}
    generator.write(tmp_path, "salt", 3, sizes)
    generated = DOMAIN.generate("salt", 3, sizes)
    loaded = DOMAIN.load(tmp_path, 0, {"train": 60, "validation": 30, "test": 30})
    pool = [*generated.train, *generated.validation]
    assert {t.id: t for t in (*loaded.train, *loaded.validation)} == {t.id: t for t in pool}
    assert {t.id: t for t in loaded.test} == {t.id: t for t in generated.test}
    row = json.loads((tmp_path / "test_sample.jsonl").read_text().splitlines()[0])
    assert list(row) == ["id", "input", "output", "home_id", "type"]


def test_homes_have_the_size_of_small_homes(splits):
    for task in everything(splits):
        rooms = {room: each for room, each in task.public["home"].items() if room != "house"}
        assert 5 <= len(rooms) <= 8
        assert all(3 <= len(devices) <= 6 for devices in rooms.values())
