"""Scoring a predictions file: real rows, tiny folders, and files that are wrong."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from smart_home_data import REAL, folder, needs_real, row, rows_of, write_rows

from engine.domains.smart_home.offline import score
from engine.errors import DataError

ON = "ding_room.light.turn_on()"


def predictions(path: Path, **commands: str | None) -> Path:
    return write_rows(path, [{"id": key, "commands": text} for key, text in commands.items()])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        row("a", f"''' {ON}'''"),
        row("b", "'''error_input'''", "unexist_device"),
        row("c", f"'''{ON},error_input,'''", "multi2_mix"),
        row("d", "'''error_input,error_input,'''", "multi2_unexist_attribute"),
        row("e", f"'''{ON},kitchen.fan.set_speed(high),'''", "multi2_normal"),
    ]
    return folder(tmp_path / "data", test=rows)


@needs_real
def test_the_references_as_predictions_are_all_right(tmp_path):
    rows = rows_of(REAL / "test_sample.jsonl")
    lines = [{"id": r["id"], "commands": "{" + r["output"].replace("'''", "") + "}"} for r in rows]
    path = write_rows(tmp_path / "p.jsonl", lines)
    start = time.process_time()
    report = score(REAL, path).to_json()
    assert time.process_time() - start < 3
    assert (report["n"], report["success"], report["f1"]) == (3380, 1.0, 1.0)
    sizes = {name: each["n"] for name, each in report["by_subset"].items()}
    assert sizes == {"VS": 1200, "IS": 1200, "VM": 60, "IM": 20, "MM": 900}
    assert all(each["success"] == each["f1"] == 1.0 for each in report["by_subset"].values())
    flagged = json.loads((REAL / "test_flags.json").read_text())
    assert report["unflagged"] == {"n": 3380 - len(flagged), "success": 1.0, "f1": 1.0}


@needs_real
def test_always_answering_error_input_has_its_known_figures(tmp_path):
    rows = rows_of(REAL / "test_sample.jsonl")
    path = write_rows(
        tmp_path / "p.jsonl", [{"id": r["id"], "commands": "{error_input}"} for r in rows]
    )
    report = score(REAL, path)
    # Counted here without the scorer: references that are one error_input, and hits over all.
    parts = {r["id"]: [p for p in r["output"].strip("' ").split(",") if p.strip()] for r in rows}
    single = [r for r in rows if parts[r["id"]] == ["error_input"]]
    hits = sum("error_input" in each for each in parts.values())
    size = sum(map(len, parts.values()))
    assert report.overall.success == pytest.approx(len(single) / len(rows))
    assert report.overall.f1 == pytest.approx(2 * hits / (len(rows) + size))
    kinds = Counter("IS" if r["type"].startswith("unexist") else r["type"] for r in single)
    assert kinds == {"IS": 1200}
    assert {name: each.success for name, each in report.by_subset.items()} == {
        "VS": 0.0, "IS": 1.0, "VM": 0.0, "IM": 0.0, "MM": 0.0,
    }  # fmt: skip


def test_figures_by_subset_by_hand(data, tmp_path):
    path = predictions(
        tmp_path / "p.jsonl",
        a=f"{{{ON}}}",
        b=f"{{{ON}}}",
        c=f"{{error_input, {ON}}}",
        d="{error_input}",
        e="no braces",
    )
    report = score(data, path).to_json()
    assert list(report) == ["n", "success", "f1", "by_subset"]
    assert report["n"] == 5 and report["success"] == pytest.approx(2 / 5)
    # tp 1+0+2+1+0, predicted 1+1+2+1+0, expected 1+1+2+2+2
    assert report["f1"] == pytest.approx(2 * 4 / (5 + 8))
    assert report["by_subset"] == {
        "VS": {"n": 1, "success": 1.0, "f1": 1.0},
        "IS": {"n": 1, "success": 0.0, "f1": 0.0},
        "VM": {"n": 1, "success": 0.0, "f1": 0.0},
        "IM": {"n": 1, "success": 0.0, "f1": pytest.approx(2 / 3)},
        "MM": {"n": 1, "success": 1.0, "f1": 1.0},
    }


def test_a_missing_prediction_is_empty(data, tmp_path):
    report = score(data, predictions(tmp_path / "p.jsonl", a=f"{{{ON}}}", b=None))
    assert report.overall.n == 5
    assert report.overall.success == pytest.approx(1 / 5)
    assert report.overall.f1 == pytest.approx(2 * 1 / (1 + 8))


def test_an_empty_predictions_file_scores_zero(data, tmp_path):
    report = score(data, write_rows(tmp_path / "p.jsonl", []))
    assert (report.overall.n, report.overall.success, report.overall.f1) == (5, 0.0, 0.0)


def test_unflagged_leaves_flagged_rows_out(data, tmp_path):
    (data / "test_flags.json").write_text(json.dumps({"b": ["doubt"], "c": [], "zz": ["x"]}))
    report = score(data, predictions(tmp_path / "p.jsonl", a=f"{{{ON}}}")).to_json()
    assert report["n"] == 5
    assert report["unflagged"]["n"] == 4
    assert report["unflagged"]["success"] == pytest.approx(1 / 4)


def test_pools_are_no_references_and_every_other_labelled_file_is(data, tmp_path):
    write_rows(data / "valid.jsonl", [row("v", f"''' {ON}'''")])
    write_rows(data / "is_pool.jsonl", [row("q", "'''error_input'''", "unexist_device")])
    assert score(data, predictions(tmp_path / "p.jsonl", v=f"{{{ON}}}")).overall.n == 6
    for stray in ("p1", "q"):
        with pytest.raises(DataError, match=r"p\.jsonl:1: id: expected an id of the reference"):
            score(data, predictions(tmp_path / "p.jsonl", **{stray: "{a}"}))


def test_a_gold_file_stands_alone(data, tmp_path):
    path = predictions(tmp_path / "p.jsonl", p1=f"{{{ON}}}")
    report = score(data, path, gold=data / "train_pool.jsonl")
    assert report.overall.n == 2 and report.overall.success == 0.5


def test_a_gold_file_without_types_has_no_subsets(data, tmp_path):
    gold = write_rows(tmp_path / "gold.jsonl", [{"id": "x", "output": "'''error_input'''"}])
    report = score(data, predictions(tmp_path / "p.jsonl", x="{error_input}"), gold)
    assert report.overall.success == 1.0 and report.by_subset == {}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"id": "nobody", "commands": "{a}"}', r"p\.jsonl:1: id: expected an id of"),
        ('{"id": "a", "commands": "{}"}\n{"id": "a", "commands": ""}', r"p\.jsonl:2: id: .* 'a'"),
        ('\n{"id": "a", "commands": 3}', r"p\.jsonl:2: commands: expected text"),
        ('{"id": "a"}', r"p\.jsonl:1: commands: expected text"),
        ('{"id": 7, "commands": "{}"}', r"p\.jsonl:1: id: expected text"),
        ('{"id": "a", "commands": "{}"', r"p\.jsonl:1: line: expected JSON"),
        ("9" * 5000, r"p\.jsonl:1: line: expected JSON"),
        ("[" * 100_000, r"p\.jsonl:1: line: expected JSON"),
        ('["a"]', r"p\.jsonl:1: line: expected a JSON object"),
    ],
)
def test_wrong_predictions_name_file_and_line(data, tmp_path, lines, message):
    path = tmp_path / "p.jsonl"
    path.write_text(lines)
    with pytest.raises(DataError, match=message):
        score(data, path)


def test_wrong_files_say_which(data, tmp_path):
    path = predictions(tmp_path / "p.jsonl")
    with pytest.raises(DataError, match=r"absent: no such folder"):
        score(tmp_path / "absent", path)
    with pytest.raises(DataError, match=r"gone\.jsonl: can't be read"):
        score(data, tmp_path / "gone.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"bytes\.jsonl: expected UTF-8"):
        score(data, tmp_path / "bytes.jsonl")
    (data / "test_flags.json").write_text("{")
    with pytest.raises(DataError, match=r"test_flags\.json:1: line: expected JSON"):
        score(data, path)


def test_wrong_references_name_file_and_line(tmp_path):
    path = predictions(tmp_path / "p.jsonl")
    twice = folder(tmp_path / "twice", test=[row("a", ON), row("a", ON)])
    with pytest.raises(DataError, match=r"test_sample\.jsonl:2: id: .*once \(first at .*:1\)"):
        score(twice, path)
    odd = folder(tmp_path / "odd", test=[row("a", ON, "multi2_odd")])
    with pytest.raises(DataError, match=r"test_sample\.jsonl:1: type: expected normal"):
        score(odd, path)
    with pytest.raises(DataError, match="no row has id and output"):
        score(folder(tmp_path / "none", test=[]), path)
    bare = write_rows(tmp_path / "bare.jsonl", [{"id": "x"}])
    with pytest.raises(DataError, match=r"bare\.jsonl:1: id, output"):
        score(odd, path, bare)
