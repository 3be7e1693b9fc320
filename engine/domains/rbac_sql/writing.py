"""Generated tasks as files in the layout that ``loader.read`` reads."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from engine.domains import Task
from engine.domains.rbac_sql import generator, loader
from engine.domains.split import TaskSplits


def write(folder: Path, salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
    """Write the tasks of ``generator.generate``: training and validation as items of the train
    split, test tasks of the dev split. Only what a role may read is in the policies."""
    splits = generator.generate(salt, seed, sizes)
    (folder / loader.DATABASES).mkdir(parents=True, exist_ok=True)
    policies: dict[str, dict[str, dict[str, dict[str, list[str]]]]] = {}
    lines = []
    for split, tasks in (
        ("train", (*splits.train, *splits.validation)),
        ("dev", splits.test),
    ):
        for task in tasks:
            name = task.content.partition("|")[0]
            if name not in policies:
                _make(folder / loader.DATABASES / f"{name}.sqlite", task.private["database"])
            roles = policies.setdefault(name, {"roles": {}})["roles"]
            roles[task.public["role"]] = task.private["grants"]
            lines.append(_line(task, name, split))
    (folder / loader.ITEMS).write_text("".join(lines), encoding="utf-8")
    (folder / loader.POLICIES).write_text(json.dumps(policies), encoding="utf-8")
    return splits


def _make(path: Path, source: Mapping[str, str]) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"BEGIN; {source['script']} COMMIT;")


def _line(task: Task, database: str, split: str) -> str:
    row = {
        "id": task.id,
        "db_id": database,
        "role": task.public["role"],
        "question": task.instruction,
        "gold_sql": task.private["gold_sql"],
        "permission": task.private["permission"],
        "spider_split": split,
        "db_file": True,
        "pg_match": True,
    }
    return json.dumps(row) + "\n"
