"""The schema that an SQLite file holds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from engine.domains.rbac_sql.schema import Column, quoted
from engine.errors import DataError


def schema_of(path: Path) -> dict[str, tuple[Column, ...]]:
    """Tables and columns of a file, without SQLite's own. Raises DataError for no database."""
    uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            return read_schema(connection)
    except sqlite3.Error as error:
        raise DataError(f"{path}: no SQLite database ({error}); restore the file") from error


def read_schema(connection: sqlite3.Connection) -> dict[str, tuple[Column, ...]]:
    """Tables and columns of an open database, in the order they were made."""
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
        "ESCAPE '\\' ORDER BY rowid"
    )
    return {name: _columns(connection, name) for (name,) in found.fetchall()}


def _columns(connection: sqlite3.Connection, table: str) -> tuple[Column, ...]:
    keys = connection.execute(
        'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', [table]
    )
    references = {
        column: f"{quoted(target)}({quoted(key)})" if key else quoted(target)
        for column, target, key in keys
    }
    rows = connection.execute("SELECT name, type FROM pragma_table_info(?)", [table])
    return tuple(Column(name, kind, references.get(name, "")) for name, kind in rows)
