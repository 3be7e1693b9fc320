"""The query process: ``python -m engine.domains.rbac_sql.server``, one JSON line in, one out.

Statements run here and not in the engine, because some can't be interrupted from inside: compiling
nested common tables doubles memory with every level. This process has limits on memory, temporary
files and CPU that the kernel holds; when it dies of one, only the statement at hand is lost.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sqlite3
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from engine.domains.rbac_sql import querying
from engine.domains.rbac_sql.comparing import is_ordered, same_result
from engine.domains.rbac_sql.querying import BOUNDS, Table

MEMORY = 256 * 2**20
TEMPORARY = 64 * 2**20
KILLED_AFTER_S = BOUNDS.cpu_s + 2.0
_KEPT = 8
_CELL = 200


class Fault(Exception):
    """The database or the reference is wrong, not the statement."""


class Opened(NamedTuple):
    """A locked database, the names of its tables, and what its file was like when it was opened."""

    connection: sqlite3.Connection
    tables: tuple[str, ...]
    file: tuple[int, ...]


class Databases:
    """The databases used last, each opened once. A source is ``{"file", "sha256"}`` or
    ``{"script"}``, SQL that makes the database in memory."""

    def __init__(self) -> None:
        self._opened: OrderedDict[str, Opened] = OrderedDict()
        self._gold: OrderedDict[tuple[str, str], Table] = OrderedDict()

    def open(self, source: Mapping[str, str]) -> Opened:
        """Raises Fault for a database that isn't there or isn't the one that was meant."""
        key = _key(source)
        known = self._opened.get(key)
        if known is None or known.file != _signature(source):
            self._opened[key] = _open(source)
            if len(self._opened) > _KEPT:
                self._opened.popitem(last=False)[1].connection.close()
        self._opened.move_to_end(key)
        return self._opened[key]

    def gold(self, source: Mapping[str, str], sql: str) -> Table:
        """The reference result. Raises Fault where the reference query doesn't run."""
        key = (_key(source), sql)
        if key not in self._gold:
            opened = self.open(source)
            table = querying.run(opened.connection, opened.tables, sql, None)
            if table.status != querying.OK:
                raise Fault(f"the reference query fails ({table.detail}): {sql[:200]}")
            self._gold[key] = table
            if len(self._gold) > _KEPT:
                self._gold.popitem(last=False)
        return self._gold[key]


def _open(source: Mapping[str, str]) -> Opened:
    try:
        connection = _from_script(source) if "script" in source else _from_file(source)
        found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        tables = tuple(str(row[0]) for row in found)
        querying.lock(connection)
    except sqlite3.Error as error:
        raise Fault(f"{source.get('file', 'the script')}: no SQLite database ({error})") from None
    return Opened(connection, tables, _signature(source))


def _key(source: Mapping[str, str]) -> str:
    return source.get("sha256") or source["script"]


def _signature(source: Mapping[str, str]) -> tuple[int, ...]:
    """What tells a changed file from the one that is open; () for a script and for no file."""
    try:
        found = Path(source["file"]).stat()
    except (KeyError, OSError):
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _from_script(source: Mapping[str, str]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
    connection.executescript(source["script"])
    return connection


def _from_file(source: Mapping[str, str]) -> sqlite3.Connection:
    path = Path(source["file"])
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise Fault(
            f"{path}: the database can't be read ({error.strerror}); put the data folder back "
            "where the splits were made from"
        ) from None
    if digest != source["sha256"]:
        raise Fault(f"{path}: not the database that the splits were made from (sha256 {digest})")
    uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=0)


def reply(databases: Databases, request: Mapping[str, Any]) -> dict[str, Any]:
    """``run`` gives the first rows of a statement; ``judge`` holds it against a policy and a
    reference: ``granted`` (None where it didn't compile) and ``correct``."""
    opened = databases.open(request["database"])
    sql, grants = request["sql"], request.get("grants")
    if request["op"] == "run":
        bounds = replace(BOUNDS, rows=request["rows"], characters=20_000 + 200 * request["rows"])
        table = querying.run(opened.connection, opened.tables, sql, grants, bounds)
        rows = [[_shown(value) for value in row] for row in table.rows]
        return {
            "status": table.status,
            "detail": table.detail,
            "columns": [name[:_CELL] for name in table.columns],
            "rows": rows,
            "granted": table.granted,
        }
    gold = databases.gold(request["database"], request["gold_sql"])
    table = querying.run(opened.connection, opened.tables, sql, grants)
    correct = table.status == querying.OK and same_result(
        gold.rows, table.rows, is_ordered(request["gold_sql"])
    )
    return {
        "status": table.status,
        "detail": table.detail,
        "granted": table.granted,
        "correct": correct,
    }


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"x'{value[: _CELL // 2].hex()}'"
    text = "NULL" if value is None else str(value)
    return text if len(text) <= _CELL else f"{text[:_CELL]}…"


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (TEMPORARY, TEMPORARY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine's to handle; it closes the pipe
    databases = Databases()
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, KILLED_AFTER_S)  # its default action ends the process
        try:
            answer = reply(databases, json.loads(line))
        except Fault as fault:
            answer = {"fault": str(fault)}
        except MemoryError:
            answer = {"status": querying.STOPPED, "detail": "over the memory limit"}
        signal.setitimer(signal.ITIMER_PROF, 0)
        try:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(0)  # the engine is gone, and with it whoever would read a traceback


if __name__ == "__main__":
    main()
