"""The engine's end of the query processes: as many as are asked at once, the idle ones kept."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from engine.domains.rbac_sql.querying import ERROR, MAX_SQL, STOPPED
from engine.errors import DataError

PATIENCE_S = 60.0
"""Wall seconds after which a query process is ended that hasn't met its own CPU limit."""
IDLE_KEPT = 2
MOST = 16
"""Processes at the same time, so that hostile statements can't add up; more statements wait."""


class Judgement(NamedTuple):
    """What a statement is worth: did it run, is it covered by the policy (None: it didn't
    compile), is its result the reference's."""

    status: str
    detail: str
    granted: bool | None
    correct: bool


class Preview(NamedTuple):
    """The first rows of a statement's result, as text."""

    status: str
    detail: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class QueryProcess:
    """One process that runs one statement at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.domains.rbac_sql.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any], patience_s: float) -> dict[str, Any] | None:
        """The reply; None when the process died of the statement (it is gone then)."""
        if self._process.stdin is None or self._process.stdout is None:
            return None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._line(self._process.stdout.fileno(), time.monotonic() + patience_s)
        return json.loads(line) if line is not None else None

    @staticmethod
    def _line(descriptor: int, deadline: float) -> bytes | None:
        poll, data = select.poll(), b""
        poll.register(descriptor, select.POLLIN)
        while not data.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return None
            piece = os.read(descriptor, 2**16)
            if not piece:
                return None
            data += piece
        return data

    def close(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # what was left to be written
                    pipe.close()
        self._process.wait()


class QueryPool:
    """Query processes for all threads. One that a statement killed is replaced; a slow statement
    delays no other, since each has a process to itself."""

    def __init__(self) -> None:
        self._idle: list[QueryProcess] = []
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST)
        self._registered = False

    def judge(
        self,
        database: Mapping[str, str],
        sql: str,
        gold_sql: str,
        grants: Mapping[str, list[str]],
    ) -> Judgement:
        """Hold ``sql`` against policy and reference. Raises DataError where the database or the
        reference itself is wrong."""
        given = {"database": database, "gold_sql": gold_sql, "grants": grants}
        found = self._ask("judge", sql, given)
        return Judgement(
            found["status"], found["detail"], found.get("granted"), bool(found.get("correct"))
        )

    def preview(self, database: Mapping[str, str], sql: str, rows: int) -> Preview:
        """The first ``rows`` rows. Raises DataError where the database itself is wrong."""
        found = self._ask("run", sql, {"database": database, "rows": rows})
        shown = tuple(tuple(row) for row in found.get("rows", ()))
        columns = tuple(found.get("columns", ()))
        return Preview(found["status"], found["detail"], columns, shown)

    async def preview_async(self, database: Mapping[str, str], sql: str, rows: int) -> Preview:
        """``preview`` in a thread of its own: the event loop goes on."""
        loop = asyncio.get_running_loop()
        threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="query")
        try:
            return await loop.run_in_executor(threads, self.preview, database, sql, rows)
        finally:
            threads.shutdown(wait=False)

    def close(self) -> None:
        """End the idle processes; the pool can be used again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()

    def _ask(self, op: str, sql: str, given: Mapping[str, Any]) -> dict[str, Any]:
        if len(sql) > MAX_SQL:
            return {"status": ERROR, "detail": f"longer than {MAX_SQL} characters"}
        with self._places:
            reply = self._answered({"op": op, "sql": sql, **given})
        if reply is None:
            return {"status": STOPPED, "detail": "over the time or memory limit"}
        if "fault" in reply:
            raise DataError(reply["fault"])
        return reply

    def _answered(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        process, reply = self._taken(), None
        try:
            reply = process.ask(request, PATIENCE_S)
        finally:
            if reply is None:
                process.close()
            else:
                self._put_back(process)
        return reply

    def _taken(self) -> QueryProcess:
        with self._lock:
            if not self._registered:
                atexit.register(self.close)
                self._registered = True
            while self._idle:
                process = self._idle.pop()
                if process.alive:
                    return process
                process.close()
        return QueryProcess()

    def _put_back(self, process: QueryProcess) -> None:
        with self._lock:
            if len(self._idle) < IDLE_KEPT:
                self._idle.append(process)
                return
        process.close()


POOL = QueryPool()
