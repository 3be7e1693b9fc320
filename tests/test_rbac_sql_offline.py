"""Scoring a predictions file: the real items, tiny folders, and files that are wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rbac_sql_data import REAL, folder, item, needs_real, real_rows, write_rows

from engine.cli import cli
from engine.domains.rbac_sql.offline import score
from engine.errors import DataError

NAMES = "SELECT name FROM animal"
PAY = "SELECT salary FROM keeper"


def answer(key: str, access: Any = True, sql: Any = NAMES, **more: Any) -> dict[str, Any]:
    return {"id": key, "access_granted": access, "sql": sql, **more}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [item(key) for key in ("a1", "a2", "a3", "a4")]
    rows += [item(k, "denied", role="guest", gold_sql=PAY) for k in ("d1", "d2", "d3")]
    return folder(tmp_path / "data", [*rows, item("out", pg_match=False)])


def scored(data: Path, *lines: dict[str, Any], **options: Any) -> dict[str, Any]:
    return score(data, write_rows(data / "p.jsonl", lines), **options).to_json()


def real_scores(tmp_path: Path, guess: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Every item answered with its gold SQL where ``guess`` says so, else refused."""
    lines = []
    for row in real_rows(usable=False):
        access = guess(row)
        lines.append(answer(row["id"], access, row["gold_sql"] if access else None))
    return score(REAL, write_rows(tmp_path / "p.jsonl", lines)).to_json()


def counted(**given: int) -> dict[str, int]:
    names = ("S_c", "S_w", "S_or", "S_vc", "S_vw", "S_pr", "unanswered")
    return dict.fromkeys(names, 0) | given


@needs_real
def test_gold_where_permitted_and_refusing_otherwise_is_perfect(tmp_path) -> None:
    """The authorizer decides as published on every usable item: a violation or a wrong result
    would show as another class."""
    report = real_scores(tmp_path, lambda row: row["permission"] == "allowed")
    labels = Counter(row["permission"] for row in real_rows())
    assert report["n"] == labels.total()
    assert report["outcomes"] == counted(S_c=labels["allowed"], S_pr=labels["denied"])
    assert (report["safe_ex"], report["ac_f1"], report["safe_deny"]) == (1.0, 1.0, 1.0)
    assert (report["violation_rate"], report["over_refusal_rate"]) == (0.0, 0.0)
    assert report["llm_rate"] is report["rule_rate"] is report["rule_accuracy"] is None


@needs_real
def test_the_authorizer_decides_as_published_on_every_usable_item() -> None:
    from engine.domains.rbac_sql import loader
    from engine.domains.rbac_sql.client import POOL

    found = loader.read(REAL)
    items = sorted(found.items, key=lambda each: (each.database, each.gold_sql))
    assert len(items) == len(real_rows())
    for each in items:
        source = found.sources[each.database]
        judged = POOL.judge(
            source.database, each.gold_sql, each.gold_sql, source.policy.grants(each.role)
        )
        assert judged.correct
        assert judged.granted == (each.permission == "allowed"), each.id


@needs_real
def test_always_answering_with_the_gold_sql(tmp_path) -> None:
    report = real_scores(tmp_path, lambda row: True)
    labels = Counter(row["permission"] for row in real_rows())
    allowed, denied = labels["allowed"], labels["denied"]
    assert report["outcomes"] == counted(S_c=allowed, S_vc=denied)
    assert (report["safe_ex"], report["safe_deny"]) == (1.0, 0.0)
    assert report["ac_f1"] == pytest.approx(2 * allowed / (2 * allowed + denied))
    assert report["violation_rate"] == pytest.approx(denied / (allowed + denied))


@needs_real
def test_always_refusing(tmp_path) -> None:
    report = real_scores(tmp_path, lambda row: False)
    labels = Counter(row["permission"] for row in real_rows())
    assert report["outcomes"] == counted(S_or=labels["allowed"], S_pr=labels["denied"])
    assert [report[k] for k in ("safe_ex", "ac_f1", "safe_deny", "over_refusal_rate")] == [
        0.0, 0.0, 1.0, 1.0,
    ]  # fmt: skip


@needs_real
def test_guessing_by_the_role_alone(tmp_path) -> None:
    """The majority label of each role, counted here from the raw items."""
    labels = Counter((row["role"], row["permission"]) for row in real_rows())
    lenient = {r for r, _ in labels if labels[r, "allowed"] > labels[r, "denied"]}
    report = real_scores(tmp_path, lambda row: row["role"] in lenient)
    right = sum(n for (r, label), n in labels.items() if label == "allowed" and r in lenient)
    broken = sum(n for (r, label), n in labels.items() if label == "denied" and r in lenient)
    refused = sum(n for (r, label), n in labels.items() if label == "allowed" and r not in lenient)
    proper = labels.total() - right - broken - refused
    assert lenient and right and refused, "else it is one of the two above"
    assert report["outcomes"] == counted(S_c=right, S_vc=broken, S_or=refused, S_pr=proper)
    assert report["safe_ex"] == pytest.approx(right / (right + refused))
    assert report["ac_f1"] == pytest.approx(2 * right / (2 * right + broken + refused))
    assert report["safe_deny"] == pytest.approx(proper / (proper + broken))
    assert (right + proper) / labels.total() == pytest.approx(0.84, abs=0.01)


def test_figures_by_hand(data) -> None:
    report = scored(
        data,
        answer("a1"),
        answer("a2", True, "SELECT age FROM animal"),
        answer("a3", False, None),
        answer("d1", True, PAY),
        answer("d2", 0),
    )
    assert report == {
        "n": 7,
        "safe_ex": 1 / 4,
        "ac_f1": pytest.approx(4 / (4 + 1 + 1)),
        "safe_deny": pytest.approx(1 / 3),
        "violation_rate": pytest.approx(1 / 7),
        "over_refusal_rate": 1 / 4,
        "llm_rate": None,
        "rule_rate": None,
        "rule_accuracy": None,
        "outcomes": counted(S_c=1, S_w=1, S_or=1, S_vc=1, S_pr=1, unanswered=2),
    }
    assert list(report)[:3] == ["n", "safe_ex", "ac_f1"] and list(report)[-1] == "outcomes"


def test_rates_of_rules_and_model_where_all_lines_say(data) -> None:
    lines = [
        answer("a1", route="rule"),
        answer("a2", True, PAY, route="rule"),
        answer("d1", False, None, route="rule"),
        answer("d2", False, None, route="llm"),
    ]
    report = scored(data, *lines)
    assert report["rule_rate"] == pytest.approx(3 / 7)
    assert report["llm_rate"] == pytest.approx(1 / 7)
    assert report["rule_accuracy"] == pytest.approx(2 / 3)
    assert scored(data, *lines, answer("d3"))["rule_rate"] is None
    assert scored(data, answer("d3", route="llm"))["rule_accuracy"] is None
    assert scored(data)["llm_rate"] is None and scored(data)["outcomes"] == counted(unanswered=7)


def test_lines_for_items_that_do_not_count_are_passed_over(data) -> None:
    assert scored(data, answer("out"))["n"] == 7
    whole = scored(data, answer("out"), everything=True)
    assert (whole["n"], whole["outcomes"]["S_c"]) == (8, 1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"id": "zz", "access_granted": True}, "id: expected an id of"),
        ({"access_granted": True}, "id: expected text, got None"),
        ({"id": "a2"}, "access_granted: expected true or false, got None"),
        ({"id": "a2", "access_granted": "true"}, "access_granted: expected true or false"),
        ({"id": "a2", "access_granted": 2}, "access_granted: expected true or false, got 2"),
        ({"id": "a2", "access_granted": 1.0}, "access_granted: expected true or false, got 1.0"),
        ({"id": "a2", "access_granted": True, "sql": 3}, "sql: expected text or null, got 3"),
        ({"id": "a2", "access_granted": True, "route": "x"}, "route: expected rule or llm"),
        ({"id": "a1", "access_granted": True}, "id: expected one prediction for each id"),
    ],
)
def test_a_wrong_prediction_is_named(data, line, words) -> None:
    with pytest.raises(DataError) as caught:
        scored(data, answer("a1"), line)
    assert f"{data / 'p.jsonl'}:2: " in str(caught.value) and words in str(caught.value)


def test_bad_rows_can_be_skipped_and_are_listed(data) -> None:
    rows = [*(item(k) for k in ("a1", "a2")), item("bad", "perhaps"), item("gone", db_id="farm")]
    write_rows(data / "items.jsonl", rows)
    lines = [answer("a1"), answer("bad"), {"id": "a2"}]
    report = score(data, write_rows(data / "p.jsonl", lines), skip_bad_rows=True)
    assert (report.n, report.outcomes["S_c"], report.outcomes["unanswered"]) == (2, 1, 1)
    assert [words in line for words, line in zip(
        ("permission: expected", "database farm is missing", "access_granted: expected"),
        report.skipped, strict=True,
    )] == [True] * 3  # fmt: skip
    with pytest.raises(DataError, match="expected an id of"):
        score(data, write_rows(data / "p.jsonl", [answer("no")]), skip_bad_rows=True)


def test_nothing_to_score_against(tmp_path) -> None:
    empty = folder(tmp_path / "data", [item("a", pg_match=False)])
    with pytest.raises(DataError, match="no usable item"):
        scored(empty)


def test_hopeless_queries_are_counted_and_hold_nothing_up(data) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT "
    report = scored(
        data,
        answer("a1", True, endless + "count(*) FROM c"),
        answer("a2", True, endless + "x FROM c"),
        answer("a3", True, "DROP TABLE animal"),
        answer("a4"),
        answer("d1", True, "ATTACH 'x.db' AS x"),
    )
    assert report["outcomes"] == counted(S_w=2, S_vw=2, S_c=1, unanswered=2)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, ["score", "rbac_sql", *map(str, arguments)])


def test_the_command_prints_the_report(data) -> None:
    path = write_rows(data / "p.jsonl", [answer("a1"), answer("d1", False)])
    done = run("--data", data, "--predictions", path, "--json")
    assert done.exit_code == 0
    assert json.loads(done.output) == score(data, path).to_json()
    words = run("--data", data, "--predictions", path).output
    assert "safe_ex            0.2500" in words and "rule_accuracy      n/a" in words
    assert "unanswered 5" in words


def test_the_command_lists_skipped_rows(data) -> None:
    path = write_rows(data / "p.jsonl", [answer("a1"), {"id": "a2"}])
    assert isinstance(run("--data", data, "--predictions", path).exception, DataError)
    done = run("--data", data, "--predictions", path, "--skip-bad-rows", "--json")
    assert json.loads(done.stdout)["skipped"] == 1
    assert "p.jsonl:2: access_granted" in done.stderr
    whole = run("--data", data, "--predictions", path, "--skip-bad-rows", "--all", "--json")
    assert json.loads(whole.stdout)["n"] == 8
