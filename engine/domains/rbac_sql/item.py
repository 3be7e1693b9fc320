"""One labelled question under one role, and the task it makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.domains import Task
from engine.domains.rbac_sql import schema as schemas
from engine.domains.rbac_sql.schema import Policy, Schema
from engine.domains.rbac_sql.scoring import ALLOWED, DENIED
from engine.domains.reading import fault, text_field
from engine.domains.smart_home.row import normalised

_LONGEST_NAME = 200
"""Bytes of a database's name: file systems allow 255 with the suffix."""


@dataclass(frozen=True)
class Item:
    """A line of items.jsonl. ``usable`` says that its database is there and that its reference
    gives there what the data set's authors got."""

    id: str
    database: str
    role: str
    question: str
    gold_sql: str
    permission: str
    split: str
    usable: bool

    @property
    def content(self) -> str:
        """What makes two items the same problem: the database and the question."""
        return f"{self.database}|{self.question.strip()}"

    @property
    def group(self) -> str:
        """What stands in one split: a question under all roles, however it is punctuated."""
        return f"{self.database}|{normalised(self.question)}"


@dataclass(frozen=True)
class Source:
    """Where an item's database comes from (see ``server.Databases``), its schema and policy."""

    database: Mapping[str, str]
    schema: Schema
    policy: Policy


def parse_item(row: Mapping[str, Any], where: str) -> Item:
    """A line of items.jsonl. Raises DataError naming ``where`` and the field."""
    for field in ("db_file", "pg_match"):
        # pg_match says nothing where there is no database to run the reference on.
        absent = field == "pg_match" and not row.get("db_file")
        if not isinstance(row.get(field), bool) and not absent:
            raise fault(where, field, "true or false", row.get(field))
    item = Item(
        id=text_field(row, "id", where),
        database=text_field(row, "db_id", where),
        role=text_field(row, "role", where),
        question=text_field(row, "question", where),
        gold_sql=text_field(row, "gold_sql", where),
        permission=text_field(row, "permission", where),
        split=text_field(row, "spider_split", where),
        usable=bool(row["db_file"]) and bool(row.get("pg_match")),
    )
    if item.permission not in (ALLOWED, DENIED):
        raise fault(where, "permission", f"{ALLOWED} or {DENIED}", item.permission)
    if item.split not in ("train", "dev"):
        raise fault(where, "spider_split", "train or dev", item.split)
    name = item.database
    if "/" in name or name.startswith(".") or len(name.encode()) > _LONGEST_NAME:
        raise fault(where, "db_id", "a database's name", item.database)
    return item


def make_task(item: Item, source: Source, known_roles: Iterable[str]) -> Task:
    """The task of an item; ``known_roles`` are this database's roles in training policies."""
    return Task(
        id=item.id,
        instruction=item.question,
        public=schemas.public(source.schema, source.policy, item.database, item.role, known_roles),
        private={
            "gold_sql": item.gold_sql,
            "permission": item.permission,
            "grants": source.policy.grants(item.role),
            "database": dict(source.database),
        },
        content=item.content,
        strata={"permission": item.permission, "role": item.role, "tables": _size(source.schema)},
        group=item.group,
    )


def _size(schema: Schema) -> str:
    n = len(schema)
    return str(n) if n <= 2 else "3-5" if n <= 5 else "6+"
