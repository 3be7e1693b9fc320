"""Random databases and policies."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.domains.rbac_sql.schema import Column, Policy, Schema, ddl
from engine.domains.rbac_sql.subjects import NAMES, ROLES, SUBJECTS, Field, Subject

MIN_ROWS, MAX_ROWS = 4, 9
HIDDEN = 0.35
"""Chance that a partial role may not read a column, apart from the keys."""


@dataclass(frozen=True)
class Made:
    """A database: its name, what it is about, the fields it has by table, its rows and policy."""

    name: str
    subject: Subject
    two_tables: bool
    fields: Mapping[str, tuple[Field, ...]]
    rows: Mapping[str, list[dict[str, Any]]]
    policy: Policy

    @property
    def schema(self) -> Schema:
        return _schema(self.fields, self.subject)

    @property
    def script(self) -> str:
        """SQL that makes the database; the world builds it in memory."""
        lines = [ddl(self.schema)]
        for table, rows in self.rows.items():
            for row in rows:
                values = ", ".join(_literal(value) for value in row.values())
                lines.append(f"INSERT INTO {table} VALUES ({values});")
        return "\n".join(lines)


def make(rng: random.Random, number: int) -> Made:
    """Database ``number``: one table or two of a subject, a few rows, four roles."""
    subject = rng.choice(SUBJECTS)
    two = rng.random() < 0.5
    fields = {subject.many: _some(rng, subject.many_fields)}
    if two:
        fields = {subject.one: _some(rng, subject.one_fields), **fields}
    rows = _rows(rng, subject, fields)
    name = f"{subject.one}_{number}"
    policy = _policy(rng, _schema(fields, subject))
    return Made(name, subject, two, fields, rows, policy)


def _some(rng: random.Random, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    chosen = rng.sample(fields, rng.randint(2, len(fields)))
    return tuple(field for field in fields if field in chosen)


def _schema(fields: Mapping[str, tuple[Field, ...]], subject: Subject) -> Schema:
    schema: dict[str, list[Column]] = {}
    for table, columns in fields.items():
        schema[table] = [Column("id", "INTEGER"), Column("name", "TEXT")]
        schema[table] += [Column(f.name, "INTEGER" if f.numeric else "TEXT") for f in columns]
    if subject.one in fields:
        key = Column(f"{subject.one}_id", "INTEGER", f"{subject.one}(id)")
        schema[subject.many].append(key)
    return schema


def _rows(
    rng: random.Random, subject: Subject, fields: Mapping[str, tuple[Field, ...]]
) -> dict[str, list[dict[str, Any]]]:
    names = rng.sample(NAMES, 2 * MAX_ROWS)
    rows: dict[str, list[dict[str, Any]]] = {}
    for table, columns in fields.items():
        rows[table] = []
        for number in range(1, rng.randint(MIN_ROWS, MAX_ROWS) + 1):
            row: dict[str, Any] = {"id": number, "name": names.pop()}
            row |= {field.name: _value(rng, field) for field in columns}
            if table == subject.many and subject.one in fields:
                row[f"{subject.one}_id"] = rng.randint(1, len(rows[subject.one]))
            rows[table].append(row)
    return rows


def _value(rng: random.Random, field: Field) -> int | str:
    return rng.choice(field.values) if field.values else rng.randint(field.low, field.high)


def _policy(rng: random.Random, schema: Schema) -> Policy:
    """One role may read everything, the others a part; some may only write a table."""
    roles: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    reader = rng.choice(ROLES)
    for role in ROLES:
        tables: dict[str, dict[str, tuple[str, ...]]] = {}
        for table, columns in schema.items():
            names = [column.name for column in columns]
            fate = rng.random()
            if role == reader or fate < 0.25:
                tables[table] = {"select": tuple(names)}
            elif fate < 0.8:
                tables[table] = {"select": tuple(_visible(rng, names))}
            elif fate < 0.9:
                tables[table] = {"insert": tuple(names)}
        roles[role] = tables
    return Policy(roles)


def _visible(rng: random.Random, names: list[str]) -> list[str]:
    kept = [name for name in names if name == "id" or rng.random() >= HIDDEN]
    return kept if len(kept) < len(names) else names[:-1]


def _literal(value: int | str) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
