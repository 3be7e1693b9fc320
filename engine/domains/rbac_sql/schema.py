"""What is public of a task: the schema, the role's policy, and the policy rows for rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = """\
all and as by case check default distinct else end exists from group having in index into is
join key like limit match not null offset on or order references select set table then to
transaction union unique using values when where
"""
_RESERVED = frozenset(_KEYWORDS.split())


@dataclass(frozen=True)
class Column:
    """A column with its declared type; ``references`` is ``table(column)`` or ''."""

    name: str
    type: str
    references: str = ""


Schema = Mapping[str, Sequence[Column]]


@dataclass(frozen=True)
class Policy:
    """What roles of one database may do: role -> table -> operation -> columns. Only ``select``
    lets a question be answered; other operations stand in the policy too."""

    roles: Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]

    def grants(self, role: str) -> dict[str, list[str]]:
        """The columns that ``role`` may read, by table."""
        tables = self.roles.get(role, {})
        return {t: list(ops["select"]) for t, ops in tables.items() if "select" in ops}

    def text(self, role: str) -> str:
        """The policy of ``role`` as GRANT statements."""
        lines = [
            f"GRANT {operation.upper()} ({', '.join(map(quoted, columns))}) ON {quoted(table)};"
            for table, operations in self.roles.get(role, {}).items()
            for operation, columns in operations.items()
        ]
        return "\n".join(lines)

    def rows(self, database: str, roles: Iterable[str]) -> list[dict[str, Any]]:
        """The policy of ``roles`` as rows, one for each role, table and operation."""
        return [
            {
                "database": database,
                "role": role,
                "table": table,
                "operation": operation,
                "columns": list(columns),
            }
            for role in roles
            for table, operations in self.roles.get(role, {}).items()
            for operation, columns in operations.items()
        ]


def ddl(schema: Schema) -> str:
    """The schema as CREATE TABLE statements, one a line."""
    return "\n".join(
        f"CREATE TABLE {quoted(table)} ({', '.join(map(_declared, columns))});"
        for table, columns in schema.items()
    )


def _declared(column: Column) -> str:
    kind = f" {column.type}" if column.type else ""
    references = f" REFERENCES {column.references}" if column.references else ""
    return f"{quoted(column.name)}{kind}{references}"


def quoted(name: str) -> str:
    """A name as SQL writes it: in double quotes unless it is a plain word."""
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def public(
    schema: Schema, policy: Policy, database: str, role: str, known: Iterable[str]
) -> dict[str, Any]:
    """What a harness is shown before any tool call. ``known`` are the roles of this database in
    training policies: only their rows may become rules or indexes, and none are given for a
    database that training doesn't have."""
    return {
        "role": role,
        "schema": ddl(schema),
        "tables": {table: [column.name for column in columns] for table, columns in schema.items()},
        "policy": policy.text(role),
        "grants": policy.grants(role),
        "policy_rows": policy.rows(database, known),
    }
