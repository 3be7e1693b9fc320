"""`coevo data check`: what it counts, what it refuses, what it doesn't show, and that no round can
call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from attribution_data import folder as logs
from attribution_data import hand, tracer
from runs import RunRepository
from smart_home_data import REAL, folder, needs_real, row, rows_of, write_rows

from engine.context import open_context
from engine.data_check import EXAMPLES, Shared, check, report
from engine.domains import Task
from engine.domains.smart_home import DOMAIN
from engine.errors import ArchiveLocked, ConfigError, DataError
from engine.observer import Silent
from engine.params import load, parse
from engine.splits import FrozenSplits, Made, make

ON = "''' ding_room.light.turn_on()'''"
SIZES = {"train": 1, "validation": 2, "test": 1}


def task(name: str, content: str, kind: str = "x", group: str = "") -> Task:
    return Task(name, content, {}, {}, content, {"kind": kind}, group)


def test_a_report_counts_strata_repeats_and_what_is_shared() -> None:
    parts = {
        "train": [task("a", "one", "x"), task("b", "One", "y"), task("c", "two", group="g")],
        "validation": [task("d", "ONE!"), task("e", "three", group="g")],
        "test": [task("f", "one"), task("g", "four", group="g")],
    }
    found = report("some", Made(parts, "generated", ["f.jsonl:3: bad"], ["a: x", "b: y"]))
    assert found.splits["train"].tasks == 3
    assert found.splits["train"].strata == {"kind": {"x": 2, "y": 1}}
    assert found.splits["train"].repeats == {"id": 0, "content": 1, "group": 0}
    assert found.overlaps == [
        Shared("content", ("train", "validation"), 1, [("a", "d")]),
        Shared("content", ("train", "test"), 1, [("a",)]),
        Shared("group", ("train", "validation"), 1, [("c", "e")]),
        Shared("group", ("train", "test"), 1, [("c",)]),
    ]
    assert not found.disjoint and found.skipped == 1
    assert (found.left_out, found.left_out_rows) == (2, ("a: x", "b: y"))
    kept = report("some", Made(parts, "here"), FrozenSplits({}, "here", skipped=3, left_out=4))
    assert kept.frozen and (kept.skipped, kept.left_out) == (3, 4)
    assert not kept.skipped_rows and not kept.left_out_rows


def test_near_duplicates_are_a_warning_and_examples_are_few() -> None:
    text = "one two three four five six seven eight nine ten"
    validation = [task(f"v{n}", f"{text} {n}") for n in range(EXAMPLES + 3)]
    found = report("some", Made({"train": [task("a", text)], "validation": validation}, ""))
    [near] = found.near
    assert near.tasks == EXAMPLES + 3 and len(near.examples) == EXAMPLES
    assert found.disjoint


@needs_real
def test_the_real_homes_are_disjoint_and_few_are_near() -> None:
    splits = DOMAIN.load(REAL, 0, {"train": 6000, "validation": 1000, "test": 3380})
    parts = {name: getattr(splits, name) for name in ("train", "validation", "test")}
    found = report("smart_home", Made(parts, "homebench"))
    assert found.disjoint
    assert 0 < sum(each.tasks for each in found.near) < 100, "a list that a person can look at"


# --- malformed rows -----------------------------------------------------------------------------


def broken(path: Path) -> Path:
    """A folder whose every file has malformed rows between good ones."""
    data = folder(path, pool=[row(f"p{n}", ON) for n in range(3)])
    pool = data / "train_pool.jsonl"
    bad_type = {**row("p9", ON), "type": "odd"}
    pool.write_text("{oops\n" + pool.read_text() + json.dumps(bad_type) + "\n[]\n")
    homes = rows_of(data / "home_status_method.jsonl")
    write_rows(data / "home_status_method.jsonl", [*homes, {"home_id": 1}])
    write_rows(data / "test_sample.jsonl", [row("t0", ON, home_id=1), row("t1", ON)])
    return data


def test_malformed_rows_are_left_out_and_listed(tmp_path: Path) -> None:
    data = broken(tmp_path / "d")
    splits = DOMAIN.load(data, 0, SIZES, skip_bad_rows=True)
    assert sorted(t.id for t in (*splits.train, *splits.validation)) == ["p0", "p1", "p2"]
    assert [t.id for t in splits.test] == ["t1"]
    places = [line.split(": ")[0].removeprefix(f"{data}/") for line in splits.skipped]
    assert places == [
        "home_status_method.jsonl:2",
        "test_sample.jsonl:1",
        "train_pool.jsonl:1",
        "train_pool.jsonl:5",
        "train_pool.jsonl:6",
    ]
    assert "type: expected normal" in splits.skipped[3]
    with pytest.raises(DataError, match=r"home_status_method\.jsonl:2"):
        DOMAIN.load(data, 0, SIZES)


def test_half_a_character_is_a_malformed_row(tmp_path: Path) -> None:
    """A text that was cut in the middle of an emoji; whole ones are text like any other."""
    said = {"p1": "Turn on the light \\ud83d.", "p2": "Turn on the light \\ud83d\\ude00."}
    data = folder(tmp_path / "d", pool=[row(f"p{n}", ON) for n in range(4)])
    pool = data / "train_pool.jsonl"
    rows = [each | {"input": said.get(each["id"], each["input"])} for each in rows_of(pool)]
    pool.write_text("".join(json.dumps(each) + "\n" for each in rows).replace("\\\\u", "\\u"))
    splits = DOMAIN.load(data, 0, SIZES, skip_bad_rows=True)
    assert sorted(t.id for t in (*splits.train, *splits.validation)) == ["p0", "p2", "p3"]
    with pytest.raises(DataError, match=r"train_pool\.jsonl:2: .* is half a character"):
        DOMAIN.load(data, 0, SIZES)


def test_leaving_rows_out_of_sound_files_changes_nothing(tmp_path: Path) -> None:
    data = folder(tmp_path / "d", pool=[row(f"p{n}", ON) for n in range(9)])
    sizes = {"train": 5, "validation": 4, "test": 1}
    assert DOMAIN.load(data, 3, sizes, skip_bad_rows=True) == DOMAIN.load(data, 3, sizes)


class Plain:
    """A domain whose loader can't leave rows out."""

    name = "plain"

    def load(self, data: Path, seed: int, sizes: dict[str, int]) -> Any:
        return DOMAIN.load(data, seed, sizes)


def test_a_loader_that_cannot_skip_says_so(tmp_path: Path) -> None:
    data = folder(tmp_path / "d", pool=[row(f"p{n}", ON) for n in range(3)])
    text = yaml.safe_dump({"data": str(data), "splits": SIZES, "inheritance": {"preliminary": 1}})
    params = parse(text, "params.yaml")
    assert make(tmp_path, params, Plain()).skipped == ()
    asked = params.model_copy(update={"skip_bad_rows": True})
    with pytest.raises(ConfigError, match="domain plain can't leave rows out"):
        make(tmp_path, asked, Plain())


# --- in a run repository ------------------------------------------------------------------------


def test_the_splits_are_checked_before_and_after_they_are_frozen(
    fresh: RunRepository, one_round: RunRepository
) -> None:
    before, after = (
        json.loads(run.ok("coevo", "data", "check", "--json")) for run in (fresh, one_round)
    )
    assert (before["frozen"], after["frozen"]) == (False, True)
    assert {name: facts["tasks"] for name, facts in before["splits"].items()} == {
        "train": 24,
        "validation": 12,
        "test": 10,
    }
    assert before["disjoint"] and before["splits"] == after["splits"]
    assert before["overlaps"] == after["overlaps"] == []


def test_what_is_shown_of_the_test_split_are_figures(one_round: RunRepository) -> None:
    frozen = one_round.folder / ".coevo" / "splits" / "evo" / "test.jsonl"
    tasks = [json.loads(line) for line in frozen.read_text().splitlines()[1:]]
    for words in (("--json",), ()):
        shown = one_round.ok("coevo", "data", "check", *words)
        assert "test" in shown
        for each in tasks:
            assert each["id"] not in shown and each["instruction"] not in shown


def test_splits_that_overlap_are_an_error(one_round: RunRepository, tmp_path: Path) -> None:
    """Round 0 refuses them; the check says the whole of it, with an exit code."""
    run = one_round.copied(tmp_path / "base")
    run.set_params(run="second", domain="overlapping:DOMAIN")
    (run.base / "more").mkdir()
    (run.base / "more" / "overlapping.py").write_text(OVERLAPPING)
    path = f"PYTHONPATH={run.base / 'more'}:{Path(__file__).parent}"
    done = run.run("env", path, "coevo", "data", "check")
    assert done.returncode == 3 and done.stderr == ""
    assert "OVERLAP: 2 tasks of validation with train by group: e.g. " in done.stdout
    assert "the splits are NOT disjoint" in done.stdout
    said = run.fails("env", path, "coevo", "stage", "open", code=3)
    assert "its group stands in train too" in said and "coevo data check" in said


OVERLAPPING = """
from dataclasses import replace

from engine.domains.smart_home import DOMAIN as HOMES
from engine.domains.split import TaskSplits


class Domain(type(HOMES)):
    def load(self, data, seed, sizes):
        found = super().load(data, seed, sizes)
        train = [replace(task, group="g") for task in found.train]
        validation = [replace(task, group="g" if n < 2 else "") for n, task in
                      enumerate(found.validation)]
        return TaskSplits(train=train, validation=validation, test=found.test)


DOMAIN = Domain()
"""


def test_a_round_says_which_rows_it_leaves_out(fresh: RunRepository, tmp_path: Path) -> None:
    run = fresh.copied(tmp_path / "base")
    data = Path(yaml.safe_load((run.folder / "params.yaml").read_text())["data"])
    pool = data / "train_pool.jsonl"
    pool.write_text("{oops\n" + pool.read_text())
    where = "train_pool.jsonl:1: line: expected JSON"
    assert where in run.fails("coevo", "data", "check", code=3)
    assert where in run.fails("coevo", "stage", "open", code=3)
    checked = json.loads(run.ok("coevo", "data", "check", "--skip-bad-rows", "--json"))
    assert checked["skipped"] == 1 and where in checked["skipped_rows"][0]
    assert "1 malformed rows are skipped" in run.ok("coevo", "data", "check", "--skip-bad-rows")
    run.set_params(skip_bad_rows=True)
    done = run.run("coevo", "stage", "open")
    assert done.returncode == 0, done.stderr
    assert "1 malformed rows are skipped" in done.stderr and where in done.stderr
    after = json.loads(run.ok("coevo", "data", "check", "--json"))
    assert after["frozen"] and after["skipped"] == 1 and after["skipped_rows"] == []


def test_malformed_rows_and_filtered_ones_are_told_apart(
    fresh: RunRepository, tmp_path: Path
) -> None:
    run = fresh.copied(tmp_path / "base")
    rows = [tracer(n) for n in range(30)]
    rows += [tracer(30, mistake_agent="Engineer"), tracer(31, mistake_step="none")]
    data = logs(run.base / "logs", hands={n: hand(n) for n in range(12)}, tracers=rows)
    sizes = {"train": 16, "validation": 12, "test": 10}
    run.set_params(domain="attribution", data=str(data), splits=sizes, skip_bad_rows=True)
    said = run.ok("coevo", "data", "check")
    assert "1 malformed rows are skipped\n" in said and "mistake_step: expected" in said
    assert "1 rows are left out by the domain's filters\n  Code_30_I: left out by con" in said
    facts = json.loads(run.ok("coevo", "data", "check", "--json"))
    assert (facts["skipped"], facts["left_out"]) == (1, 1)
    assert [len(facts[f"{name}_rows"]) for name in ("skipped", "left_out")] == [1, 1]


def test_inside_a_round_the_check_is_refused(one_round: RunRepository) -> None:
    context = open_context(one_round.folder, load(one_round.folder / "params.yaml"), Silent())
    with context.archive.lock(), pytest.raises(ArchiveLocked):
        check(context)
