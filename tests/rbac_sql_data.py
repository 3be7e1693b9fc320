"""Where the role-conditioned Spider files are, and a tiny folder in their form."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[1]
REAL = Path(os.environ.get("COEVO_DATA", _ROOT.parent / "shared" / "data")) / "spider_rbac"

needs_real = pytest.mark.skipif(
    not (REAL / "items.jsonl").exists(),
    reason=f"no role-conditioned Spider in {REAL}; set COEVO_DATA to the folder with spider_rbac/",
)

ZOO = """\
CREATE TABLE keeper (id INTEGER, name TEXT, salary INTEGER);
CREATE TABLE animal (id INTEGER, name TEXT, age REAL, keeper_id INTEGER REFERENCES keeper(id));
INSERT INTO keeper VALUES (1, 'Ada', 900), (2, 'Bo', 700);
INSERT INTO animal VALUES (1, 'Rex', 3, 1), (2, 'Tig', 5.5, 1), (3, 'Rex', 3, 2), (4, NULL, 1, 2);
"""
KEEPER, ANIMAL = ["id", "name", "salary"], ["id", "name", "age", "keeper_id"]
ROLES = {
    "boss": {"keeper": KEEPER, "animal": ANIMAL},
    "guide": {"keeper": ["id", "name"], "animal": ["id", "NAME", "age"]},
    "guest": {"animal": ["name"]},
}


def real_rows(usable: bool = True) -> list[dict[str, Any]]:
    """The raw items, read without the loader."""
    rows = [json.loads(line) for line in (REAL / "items.jsonl").read_text().splitlines()]
    return [row for row in rows if not usable or (row["db_file"] and row.get("pg_match"))]


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def item(key: str, permission: str = "allowed", **fields: Any) -> dict[str, Any]:
    return {
        "id": key,
        "db_id": "zoo",
        "role": "boss",
        "question": f"Question {key}?",
        "gold_sql": "SELECT name FROM animal",
        "permission": permission,
        "spider_split": "train",
        "db_file": True,
        "pg_match": True,
        **fields,
    }


def make_database(path: Path, script: str = ZOO) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def folder(
    path: Path, items: Sequence[Mapping[str, Any]], policies: Mapping[str, Any] | None = None
) -> Path:
    """A data folder with the database ``zoo`` and these items."""
    (path / "databases").mkdir(parents=True)
    make_database(path / "databases" / "zoo.sqlite")
    write_rows(path / "items.jsonl", items)
    known = {"zoo": {"roles": ROLES}} if policies is None else policies
    (path / "policies.json").write_text(json.dumps(known))
    return path
