"""Running one statement on a read-only database within limits. Only the query process does this."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.domains.rbac_sql.authority import Authority, Grants

OK, ERROR, REFUSED, STOPPED = "ok", "error", "refused", "stopped"
MAX_SQL = 20_000
"""Characters of a longest statement that is tried."""

_STRIDE = 10_000
_LIMITS = {
    "interrupted": "time",
    "disk I/O error": "temporary space",  # the process may write only so much
    "database or disk is full": "temporary space",
    "out of memory": "memory",
}
_SIZES = {
    sqlite3.SQLITE_LIMIT_LENGTH: 64 * 2**10,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * MAX_SQL,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


@dataclass(frozen=True)
class Bounds:
    """What one statement may use: rows and characters returned, steps of SQLite's virtual machine
    (the same everywhere, some tens of millions a second), and CPU seconds as the backstop."""

    rows: int = 20_000
    characters: int = 4_000_000
    steps: int = 50_000_000
    cpu_s: float = 3.0


BOUNDS = Bounds()


@dataclass(frozen=True)
class Table:
    """What a statement gave. ``status`` is ``ok``, ``error`` (it can't be run), ``refused`` (it
    does more than read) or ``stopped`` (at a limit; ``rows`` are then the first ones). ``granted``
    says whether the policy covers it, None where it didn't compile."""

    status: str
    detail: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    granted: bool | None = None


def lock(connection: sqlite3.Connection) -> None:
    """Make a connection read-only and bounded; nothing that a statement does undoes it."""
    for category, size in _SIZES.items():
        connection.setlimit(category, size)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    for pragma in ("temp_store=1", "cache_size=-2000", "trusted_schema=0", "query_only=1"):
        connection.execute(f"PRAGMA {pragma}")
    connection.set_authorizer(Authority((), None))


def run(
    connection: sqlite3.Connection,
    tables: tuple[str, ...],
    sql: str,
    grants: Grants | None,
    bounds: Bounds = BOUNDS,
) -> Table:
    """Run ``sql`` on a locked connection whose tables are ``tables``. Raises nothing that a
    statement can cause."""
    if len(sql) > MAX_SQL:
        return Table(ERROR, f"longer than {MAX_SQL} characters")
    if "\0" in sql or (not sql.isprintable() and not _encodable(sql)):
        return Table(ERROR, "characters that SQL can't have")
    authority = Authority(tables, grants)
    try:
        with _watched(connection, authority, bounds):
            return _fetched(connection, sql, authority, bounds)
    except (sqlite3.Error, sqlite3.Warning) as error:
        return _failed(error, authority)
    except MemoryError:
        return Table(STOPPED, "over the memory limit")


def _encodable(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _watched(
    connection: sqlite3.Connection, authority: Authority, bounds: Bounds
) -> Iterator[None]:
    calls, start = 0, time.process_time()

    def over() -> bool:
        nonlocal calls
        calls += 1
        return calls * _STRIDE > bounds.steps or time.process_time() - start > bounds.cpu_s

    connection.set_authorizer(authority)
    connection.set_progress_handler(over, _STRIDE)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.set_authorizer(Authority((), None))


def _fetched(
    connection: sqlite3.Connection, sql: str, authority: Authority, bounds: Bounds
) -> Table:
    cursor = connection.execute(sql)
    try:
        if cursor.description is None:
            return Table(ERROR, "no query: nothing is selected")
        columns = tuple(str(each[0]) for each in cursor.description)
        rows: list[tuple[Any, ...]] = []
        size = 0
        for row in cursor:
            size += sum(len(v) if isinstance(v, str | bytes) else 8 for v in row)
            if len(rows) >= bounds.rows or size > bounds.characters:
                detail = f"more than {bounds.rows} rows or {bounds.characters} characters"
                return Table(STOPPED, detail, columns, tuple(rows), authority.granted)
            rows.append(row)
        return Table(OK, "", columns, tuple(rows), authority.granted)
    finally:
        cursor.close()


def _failed(error: Exception, authority: Authority) -> Table:
    if authority.refused:
        return Table(REFUSED, f"{authority.refused} is not allowed, only SELECT is", granted=False)
    limit = _LIMITS.get(str(error))
    if limit:
        return Table(STOPPED, f"over the {limit} limit", granted=authority.granted)
    return Table(ERROR, str(error))
