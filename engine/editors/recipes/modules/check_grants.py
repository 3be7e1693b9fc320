"""Hold the model's own SQL against the policy before it is submitted.

SQLite's authorizer says what a statement reads, on an empty copy of the schema.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from kernel.contract import ToolCall

RETRIES = 0  # times the model is told what isn't granted before its answer becomes a refusal


async def call(agent: Any, call: Any, world: Any) -> Any:
    sql = call.arguments.get("sql")
    if call.name != "final_answer" or not sql or not agent.public.get("tables"):
        return call
    lacking = missing(sql, agent.public)
    if not lacking:
        return call
    told = agent.facts.get("told", 0)
    if told < RETRIES:
        agent.facts["told"] = told + 1
        return (
            f"The policy grants no {', '.join(sorted(lacking))}. If the answer needs it, call "
            "final_answer with access_granted false; else use granted columns only."
        )
    return ToolCall(call.id, call.name, {"access_granted": False})


def missing(sql: str, public: dict[str, Any]) -> set[str]:
    """What the statement reads and the role may not; nothing for SQL that doesn't compile."""
    tables = {table.lower() for table in public["tables"]}
    granted = {
        table.lower(): {column.lower() for column in columns}
        for table, columns in public["grants"].items()
    }
    lacking = set()

    def authorize(action: int, first: str | None, second: str | None, *rest: Any) -> int:
        table, column = (first or "").lower(), (second or "").lower()
        if action == sqlite3.SQLITE_READ and (column or table in tables):
            known = granted.get(table)
            if known is None or (column and column not in known):
                lacking.add(f"{table}.{column or '*'}")
        return sqlite3.SQLITE_OK

    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.executescript(public["schema"])
            connection.set_authorizer(authorize)
            connection.execute(f"EXPLAIN {sql}")
        except (sqlite3.Error, sqlite3.Warning, ValueError):
            return set()
    return lacking
