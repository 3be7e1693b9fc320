"""Splits from files: what is read, what is left out, and what is said of wrong files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from rbac_sql_data import REAL, folder, item, make_database, needs_real, real_rows, write_rows

from engine.domains.rbac_sql import loader
from engine.domains.rbac_sql.domain import DOMAIN
from engine.errors import ConfigError, DataError

SIZES = {"train": 4, "validation": 2, "test": 1}


def questions(split: str, numbers: range) -> list[dict[str, object]]:
    """Each question under two roles: the boss may ask it, the guest may not."""
    return [
        item(
            f"{split}{number}{role}",
            permission,
            question=f"What is thing {number}?",
            gold_sql="SELECT age FROM animal",
            role=role,
            spider_split=split,
        )
        for number in numbers
        for role, permission in (("boss", "allowed"), ("guest", "denied"))
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return folder(tmp_path / "data", questions("train", range(6)) + questions("dev", range(6, 8)))


def test_a_question_under_several_roles_stays_in_one_split(data) -> None:
    splits = DOMAIN.load(data, 3, SIZES)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [4, 2, 1]
    groups = [{task.group for task in part} for part in (splits.train, splits.validation)]
    assert [len(group) for group in groups] == [2, 1] and not groups[0] & groups[1]
    assert {task.content for task in splits.train} == {
        f"zoo|{task.instruction}" for task in splits.train
    }
    assert splits.test[0].id.startswith("dev")
    assert Counter(task.private["permission"] for task in splits.train) == {
        "allowed": 2,
        "denied": 2,
    }


def test_a_question_that_was_begun_is_used_up(data) -> None:
    splits = DOMAIN.load(data, 3, {"train": 4, "validation": 1})
    assert splits.validation[0].content not in {task.content for task in splits.train}
    with pytest.raises(DataError, match="train: 11 tasks asked, 10 there are"):
        DOMAIN.load(data, 3, {"train": 11, "validation": 1})


def test_a_question_that_only_punctuation_tells_apart_is_one(tmp_path) -> None:
    said = ["Who is old ?", "who is old?", "WHO IS OLD", "Who is old, then?"]
    rows = [item(str(n), question=text) for n, text in enumerate(said)]
    splits = DOMAIN.load(folder(tmp_path / "data", rows), 1, {"train": 1, "validation": 1})
    chosen = {task.instruction for task in (*splits.train, *splits.validation)}
    assert said[3] in chosen and len({task.group for task in splits.train} & {
        task.group for task in splits.validation
    }) == 0  # fmt: skip


def test_the_seed_chooses(data) -> None:
    chosen = [[t.id for t in DOMAIN.load(data, seed, SIZES).train] for seed in (1, 1, 2, 3, 4)]
    assert chosen[0] == chosen[1] and len({tuple(ids) for ids in chosen}) > 1


def test_what_the_harness_sees(data) -> None:
    (task,) = DOMAIN.load(data, 3, {"train": 12}).train[:1]
    public = DOMAIN.world(task).public
    assert public["schema"] == (
        "CREATE TABLE keeper (id INTEGER, name TEXT, salary INTEGER);\n"
        "CREATE TABLE animal (id INTEGER, name TEXT, age REAL, "
        "keeper_id INTEGER REFERENCES keeper(id));"
    )
    assert public["tables"]["keeper"] == ["id", "name", "salary"]
    guest = next(
        t for t in DOMAIN.load(data, 3, {"train": 12}).train if t.public["role"] == "guest"
    )
    assert guest.public["policy"] == "GRANT SELECT (name) ON animal;"
    seen = json.dumps([guest.public, guest.instruction])
    assert guest.private["gold_sql"] not in seen and '"denied"' not in seen


def test_only_training_policies_become_rows(tmp_path) -> None:
    """The test split's database occurs in training; its guide doesn't, so no row is the guide's."""
    rows = [item("a"), item("b", role="guest", permission="denied", spider_split="dev")]
    rows.append(item("c", role="guide", spider_split="dev", question="Another?"))
    splits = DOMAIN.load(folder(tmp_path / "data", rows), 1, {"train": 1, "test": 2})
    for task in splits.test:
        assert {row["role"] for row in task.public["policy_rows"]} == {"boss"}
        assert task.public["policy"]
    alone = DOMAIN.load(tmp_path / "data", 1, {"test": 2})
    assert all(task.public["policy_rows"] == [] for task in alone.test)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": 7}, "id: expected text, got 7"),
        ({"db_id": None}, "db_id: expected text, got None"),
        ({"db_id": "../zoo"}, "db_id: expected a database's name, got '../zoo'"),
        ({"db_id": "x" * 300}, "db_id: expected a database's name, got 'xxx"),
        ({"role": ""}, "role: expected text"),
        ({"role": "stranger"}, "role: expected a role of zoo's policy, got 'stranger'"),
        ({"question": []}, "question: expected text, got []"),
        ({"gold_sql": 1}, "gold_sql: expected text"),
        ({"permission": "maybe"}, "permission: expected allowed or denied, got 'maybe'"),
        ({"spider_split": "test"}, "spider_split: expected train or dev"),
        ({"db_file": "yes"}, "db_file: expected true or false, got 'yes'"),
        ({"pg_match": None}, "pg_match: expected true or false, got None"),
        ({"id": "a"}, "id: expected an id not used before in this file, got 'a'"),
        ({"db_id": "farm"}, "database farm is missing: put it at"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, change, words) -> None:
    data = folder(tmp_path / "data", [item("a"), {**item("b"), **change}, item("c")])
    with pytest.raises(DataError) as caught:
        DOMAIN.load(data, 1, SIZES)
    assert f"{data / 'items.jsonl'}:2: " in str(caught.value) and words in str(caught.value)
    splits = DOMAIN.load(data, 1, {"train": 2}, skip_bad_rows=True)
    assert {task.id for task in splits.train} == {"a", "c"}
    assert len(splits.skipped) == 1 and words in splits.skipped[0]


@pytest.mark.parametrize("line", ["{", "[1]", "[" * 100_000])
def test_a_line_that_is_no_object_is_named(tmp_path, line) -> None:
    data = folder(tmp_path / "data", [item("a")])
    path = data / "items.jsonl"
    path.write_text(f"{path.read_text()}\n{line}\n")
    with pytest.raises(DataError, match=r"items.jsonl:3: line: expected"):
        loader.read(data)
    assert len(loader.read(data, skip_bad_rows=True).skipped) == 1


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ([], "file: expected an object"),
        ({}, "has no policy for zoo; restore the file"),
        ({"zoo": []}, "zoo: policy: expected an object"),
        ({"zoo": {"roles": 1}}, "zoo: roles: expected an object, got 1"),
        ({"zoo": {"roles": {"boss": {"animal": "name"}}}}, "roles.boss.animal: expected a list"),
        (
            {"zoo": {"roles": {"boss": {"animal": [1]}}}},
            "roles.boss.animal: expected a list of col",
        ),
    ],
)
def test_a_missing_or_malformed_policy_is_named(tmp_path, policies, words) -> None:
    data = folder(tmp_path / "data", [item("a")], policies)
    with pytest.raises(DataError, match=r"policies\.json") as caught:
        loader.read(data)
    assert words in str(caught.value)


def test_what_is_missing_is_said_with_where_to_get_it(tmp_path) -> None:
    with pytest.raises(DataError, match=r"no such folder; it must hold items\.jsonl"):
        loader.read(tmp_path / "nothing")
    data = folder(tmp_path / "data", [item("a")])
    (data / "databases" / "zoo.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(DataError, match=r"zoo.sqlite: no SQLite database .*restore the file"):
        loader.read(data)
    (data / "databases" / "zoo.sqlite").unlink()
    with pytest.raises(DataError, match=r"database zoo is missing: put it at .*github.com"):
        loader.read(data)
    (data / "policies.json").unlink()
    with pytest.raises(DataError, match=r"policies\.json: can't be read"):
        loader.read(data)


def test_only_usable_items_unless_all_are_asked_for(tmp_path) -> None:
    rows = [item("a"), item("b", pg_match=False), item("c", db_file=False, pg_match=None)]
    data = folder(tmp_path / "data", rows)
    assert [each.id for each in loader.read(data).items] == ["a"]
    assert [each.id for each in loader.read(data, everything=True).items] == ["a", "b", "c"]


def test_sizes_that_make_no_sense(data) -> None:
    with pytest.raises(ConfigError, match="no split is called 'dev'"):
        DOMAIN.load(data, 1, {"dev": 1})


def test_names_that_sql_can_not_have_bare_are_quoted(tmp_path) -> None:
    data = folder(tmp_path / "data", [item("a")])
    path = data / "databases" / "zoo.sqlite"
    path.unlink()
    make_database(path, 'CREATE TABLE animal ("Home Town" TEXT, "order" INT, name);')
    (task,) = DOMAIN.load(data, 1, {"train": 1}).train
    assert task.public["schema"] == 'CREATE TABLE animal ("Home Town" TEXT, "order" INT, name);'


@needs_real
def test_the_real_files_give_splits_of_the_papers_kind() -> None:
    splits = DOMAIN.load(REAL, 5, {"train": 800, "validation": 200, "test": 100})
    raw = {row["id"]: row for row in real_rows()}
    asked = [
        {(raw[task.id]["db_id"], raw[task.id]["question"]) for task in part}
        for part in (splits.train, splits.validation, splits.test)
    ]
    assert not asked[0] & asked[1] and not asked[0] & asked[2] and not asked[1] & asked[2]
    assert {raw[task.id]["spider_split"] for task in splits.test} == {"dev"}
    assert {raw[t.id]["spider_split"] for t in (*splits.train, *splits.validation)} == {"train"}
    # Test databases are in no training policy: everything about them is left to the model.
    assert all(task.public["policy_rows"] == [] for task in splits.test)
    assert any(task.public["policy_rows"] for task in splits.validation)


@needs_real
def test_the_real_files_reach_the_papers_sizes_as_far_as_they_go() -> None:
    rows = real_rows()
    splits = DOMAIN.load(REAL, 0, {"train": 8000, "validation": 2000})
    assert (len(splits.train), len(splits.validation)) == (8000, 2000)
    dev = sum(row["spider_split"] == "dev" for row in rows)
    assert len(DOMAIN.load(REAL, 0, {"test": dev}).test) == dev


def test_a_predictions_like_file_with_crlf_is_read(tmp_path) -> None:
    data = folder(tmp_path / "data", [])
    write_rows(data / "items.jsonl", [item("a")])
    path = data / "items.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert [each.id for each in loader.read(data).items] == ["a"]
