"""What a statement may do and what it reads, by SQLite's own authorizer (no parsing of SQL)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

Grants = Mapping[str, Iterable[str]]
"""Table -> the columns that a role may read. Names are compared without case."""

_QUIET = frozenset([sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE])
_REACHING_OUT = frozenset(
    ["load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_log"]
)
_ACTIONS = {
    sqlite3.SQLITE_PRAGMA: "a pragma",
    sqlite3.SQLITE_ATTACH: "attaching a file",
    sqlite3.SQLITE_DETACH: "detaching a file",
    sqlite3.SQLITE_TRANSACTION: "a transaction",
    sqlite3.SQLITE_SAVEPOINT: "a savepoint",
    sqlite3.SQLITE_FUNCTION: "a function that reaches out of the database",
}


class Authority:
    """An authorizer callback for one statement.

    Refuses all but reading (``refused`` says what it was), and notes in ``missing`` the
    ``table.column`` reads that the grants don't cover. ``count(*)`` reads an empty column name,
    for which any grant on that table will do. ``grants`` None asks for no policy.
    """

    def __init__(self, tables: Iterable[str], grants: Grants | None) -> None:
        self.refused = ""
        self.missing: set[str] = set()
        self._tables = frozenset(table.lower() for table in tables)
        self._grants = None
        if grants is not None:
            self._grants = {
                table.lower(): frozenset(column.lower() for column in columns)
                for table, columns in grants.items()
            }

    @property
    def granted(self) -> bool:
        """Whether the policy covers all that the statement does."""
        return not self.refused and not self.missing

    def __call__(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        source: str | None,
    ) -> int:
        if action == sqlite3.SQLITE_READ:
            self._read((first or "").lower(), (second or "").lower())
            return sqlite3.SQLITE_OK
        harmless = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _REACHING_OUT
        if action in _QUIET or harmless:
            return sqlite3.SQLITE_OK
        self.refused = self.refused or _ACTIONS.get(action, "writing")
        return sqlite3.SQLITE_DENY

    def _read(self, table: str, column: str) -> None:
        if self._grants is None or (not column and table not in self._tables):
            return  # the second: rows of a subquery or common table, whose own reads are told too
        columns = self._grants.get(table)
        if columns is None or (column and column not in columns):
            self.missing.add(f"{table}.{column or '*'}")
