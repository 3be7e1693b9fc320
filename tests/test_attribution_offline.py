"""Scoring a predictions file: the real logs, tiny folders, and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attribution_data import (
    REAL,
    WHO,
    algorithm,
    folder,
    hand,
    needs_both,
    needs_who,
    raw,
    tracer,
    write_rows,
)
from click.testing import CliRunner

from engine.cli import cli
from engine.domains.attribution.offline import score
from engine.errors import DataError

SUBSETS = ("Hand-Crafted", "Algorithm-Generated")


def line(key: str, agent: Any = "Surfer", step: Any = 3) -> dict[str, Any]:
    return {"id": key, "agent": agent, "step": step}


def gold(row: dict[str, Any]) -> tuple[str, int]:
    return row["mistake_agent"], int(row["mistake_step"])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return folder(
        tmp_path / "data",
        hands={1: hand(1), 2: hand(2, mistake_agent="Orchestrator", mistake_step="1")},
        algorithms={1: algorithm(1)},
        tracers=[tracer(1)],
    )


def scored(data: Path, *lines: dict[str, Any], **options: Any) -> dict[str, Any]:
    return score(data, write_rows(data / "p.jsonl", lines), **options).to_json()


@needs_both
def test_gold_as_prediction_is_perfect(tmp_path) -> None:
    rows = {k: row for s in (*SUBSETS, "TracerTraj-Code") for k, row in raw(s).items()}
    path = write_rows(tmp_path / "p.jsonl", [line(k, *gold(row)) for k, row in rows.items()])
    for place, n in ((REAL, len(rows)), (WHO, sum(len(raw(s)) for s in SUBSETS))):
        if place == WHO:
            known = [line(k, *gold(rows[k])) for s in SUBSETS for k in raw(s)]
            write_rows(path, known)
        report = score(place, path).to_json()
        assert (report["n"], report["agent_accuracy"], report["step_accuracy"]) == (n, 1.0, 1.0)
        assert report["objective"] == 1.0
        assert report["official"] == {"agent_accuracy": 1.0, "step_accuracy": 1.0}
        assert all(each["objective"] == 1.0 for each in report["by_source"].values())


@needs_who
def test_always_websurfer_gives_the_shares_that_the_raw_files_say(tmp_path) -> None:
    """Counted here from the raw rows: by equality, and by the official substring test, which
    takes any label that is a part of the prediction."""
    rows = raw("Hand-Crafted")
    lines = [line(key, "WebSurfer", 24) for key in rows]
    report = score(WHO / "Hand-Crafted", write_rows(tmp_path / "p.jsonl", lines)).to_json()
    labels = [gold(row) for row in rows.values()]
    n = len(labels)
    assert report["n"] == n
    assert report["agent_accuracy"] == sum(agent == "WebSurfer" for agent, _ in labels) / n
    assert report["step_accuracy"] == sum(step == 24 for _, step in labels) / n
    official = sum(step in (2, 4, 24) for _, step in labels) / n
    assert report["official"]["step_accuracy"] == pytest.approx(official)
    assert official > report["step_accuracy"] > 0, "else the two tests can't be told apart here"
    assert 0.5 < report["agent_accuracy"] < 0.6


def test_figures_by_hand(data) -> None:
    report = scored(
        data,
        line("Hand-Crafted/1", "Surfer (-> Orchestrator)", 3),
        line("Hand-Crafted/2", "Orchestrator", 11),
        line("Code_1_I", "Product Manager", 2),
    )
    whole = {"agent_accuracy": 3 / 4, "step_accuracy": 1 / 4}
    assert report["n"] == 4 and {key: report[key] for key in whole} == whole
    assert report["objective"] == pytest.approx((3 * 0.75 + 7 * 0.25) / 10)
    assert report["official"] == {"agent_accuracy": 3 / 4, "step_accuracy": 2 / 4}
    assert report["by_source"]["Hand-Crafted"] == {
        "n": 2,
        "agent_accuracy": 1.0,
        "step_accuracy": 0.5,
        "objective": pytest.approx((3 * 1 + 7 * 0.5) / 10),
        "official": {"agent_accuracy": 1.0, "step_accuracy": 1.0},
    }
    assert report["by_source"]["Algorithm-Generated"]["agent_accuracy"] == 0.0
    assert list(report) == [
        "n", "agent_accuracy", "step_accuracy", "objective", "official", "by_source",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "said", "ours", "official"),
    [
        (("Surfer", "1"), ("Surfer", 1), (1, 1), (1, 1)),
        (("Surfer", "1"), ("Surfer", 10), (1, 0), (1, 1)),
        (("Surfer", "1"), ("Surfer", 21), (1, 0), (1, 1)),
        (("Surfer", "0"), ("Surfer", 10), (1, 0), (1, 1)),
        (("Surfer", "3"), ("WebSurfer", 1), (0, 0), (1, 0)),
        (("Surfer (x)", "3"), ("Surfer", 3), (1, 1), (0, 1)),
        (("Surfer", "03"), ("Surfer (x)", "3"), (1, 1), (1, 1)),
        (("Surfer", "3"), ("surfer", 3), (0, 1), (0, 1)),
    ],
)
def test_substring_against_exact(tmp_path, label, said, ours, official) -> None:
    row = hand(mistake_agent=label[0], mistake_step=label[1])
    report = scored(folder(tmp_path, hands={1: row}), line("Hand-Crafted/1", *said))
    assert (report["agent_accuracy"], report["step_accuracy"]) == ours
    found = report["official"]
    assert (found["agent_accuracy"], found["step_accuracy"]) == official


def test_missing_lines_are_wrong(data) -> None:
    report = scored(data)
    assert (report["n"], report["agent_accuracy"], report["objective"]) == (4, 0.0, 0.0)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (line("Hand-Crafted/9"), "id: expected the id of a log in"),
        (line("1"), "id: expected the id of a log in"),
        ({"agent": "A", "step": 1}, "id: expected text, got None"),
        (line("Code_1_I", None), "agent: expected text, got None"),
        (line("Code_1_I", "A", None), "step: expected a whole number, got None"),
        (line("Code_1_I", "A", 1.5), "step: expected a whole number, got 1.5"),
        (line("Code_1_I", "A", "x"), "step: expected a whole number, got 'x'"),
        (line("Hand-Crafted/1"), "id: expected one prediction for each id"),
        ([], "line: expected a JSON object"),
    ],
)
def test_a_wrong_prediction_is_named(data, row, words) -> None:
    with pytest.raises(DataError) as caught:
        scored(data, line("Hand-Crafted/1"), row)
    assert f"{data / 'p.jsonl'}:2: " in str(caught.value) and words in str(caught.value)


def test_bad_rows_can_be_skipped_and_are_listed(data) -> None:
    """As in the hub's copy, where three labels name a step that isn't there."""
    row = hand(3, mistake_step="51")
    row["groundtruth"] = row.pop("ground_truth")
    folder(data, hands={3: row})
    with pytest.raises(DataError, match=r"3\.json: mistake_step: expected one of the 5 steps"):
        scored(data)
    lines = [line("Hand-Crafted/1"), line("Hand-Crafted/3"), line("Hand-Crafted/2", 7)]
    report = score(data, write_rows(data / "p.jsonl", lines), skip_bad_rows=True)
    assert (report.overall.n, report.overall.agent_accuracy) == (4, 1 / 4)
    assert ["mistake_step" in report.skipped[0], "agent: expected" in report.skipped[1]] == [
        True, True,
    ]  # fmt: skip
    with pytest.raises(DataError, match="expected the id of a log"):
        score(data, write_rows(data / "p.jsonl", [line("no")]), skip_bad_rows=True)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, ["score", "attribution", *map(str, arguments)])


def test_the_command_prints_the_report(data) -> None:
    path = write_rows(data / "p.jsonl", [line("Hand-Crafted/1")])
    done = run("--data", data, "--predictions", path, "--json")
    assert done.exit_code == 0
    assert json.loads(done.output) == score(data, path).to_json()
    words = run("--data", data, "--predictions", path).output.splitlines()
    assert words[0].split()[:7] == ["all", "n", "4", "agent", "0.2500", "step", "0.2500"]
    assert [each.split()[0] for each in words[1:]] == [*sorted(SUBSETS), "TracerTraj-Code"]


def test_the_command_filters_and_skips(data) -> None:
    folder(data, hands={3: hand(3, mistake_agent="human"), 4: hand(4, mistake_step="x")})
    path = write_rows(data / "p.jsonl", [line("Hand-Crafted/1"), line("Hand-Crafted/3")])
    assert isinstance(run("--data", data, "--predictions", path).exception, DataError)
    arguments = ["--data", data, "--predictions", path, "--skip-bad-rows"]
    arguments += ["--filter", "consistent_agent"]
    done = run(*arguments, "--json")
    report = json.loads(done.stdout)
    assert (report["n"], report["skipped"], report["dropped"]) == (4, 1, {"consistent_agent": 1})
    assert "4.json: mistake_step" in done.stderr
    assert "left out by consistent_agent: 1" in run(*arguments).stdout
    assert run(*arguments, "--filter", "none").exit_code == 2
