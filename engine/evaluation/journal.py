"""The journal of finished rollouts: each is on disk before it counts, and none is paid twice."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from engine.errors import ArchiveError
from kernel.trajectory import Trajectory

_SCHEMA = 1
_CHUNK = 500


class Journal:
    """Trajectories by rollout key, in one SQLite file (write-ahead log: a killed process loses at
    most the rollouts in flight). Verdicts are not kept: the verifier is cheap and pure."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        try:
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _SCHEMA):
                raise ArchiveError(f"{path}: a journal of schema {version}; move it away")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS rollout "
                "(key TEXT PRIMARY KEY, finished REAL NOT NULL, trajectory BLOB NOT NULL)"
            )
            self._db.execute(f"PRAGMA user_version={_SCHEMA}")
        except sqlite3.Error as error:
            raise _unusable(path, str(error)) from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def get(self, keys: Iterable[str]) -> Mapping[str, Trajectory]:
        """The finished ones among ``keys``."""
        wanted = list(keys)
        found: dict[str, Trajectory] = {}
        try:
            for start in range(0, len(wanted), _CHUNK):
                part = wanted[start : start + _CHUNK]
                marks = ",".join("?" * len(part))
                rows = self._db.execute(
                    f"SELECT key, trajectory FROM rollout WHERE key IN ({marks})", part
                )
                found.update((key, _unpacked(blob)) for key, blob in rows)
        except (sqlite3.Error, zlib.error, ValueError) as error:
            raise _unusable(self._path, str(error)) from None
        return found

    def put(self, key: str, trajectory: Trajectory) -> None:
        """Record one finished rollout; the first one of a key stays. Raises ArchiveError: disk."""
        blob = zlib.compress(json.dumps(trajectory.to_json(), ensure_ascii=False).encode(), 6)
        try:
            self._db.execute(
                "INSERT OR IGNORE INTO rollout VALUES (?, ?, ?)", (key, time.time(), blob)
            )
        except sqlite3.OperationalError as error:
            raise ArchiveError(
                f"{self._path}: a finished rollout can't be kept ({error}); free some disk, make "
                "the file writable, and run again"
            ) from None
        except sqlite3.Error as error:
            raise _unusable(self._path, str(error)) from None

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM rollout").fetchone()[0])


def _unpacked(blob: bytes) -> Trajectory:
    return Trajectory.from_json(json.loads(zlib.decompress(blob)))


def _unusable(path: Path, why: str) -> ArchiveError:
    return ArchiveError(
        f"{path}: the journal can't be used ({why}); where it is read-only or the disk is full, "
        "mend that; where it is damaged, move it away to start a new one (its rollouts run again)"
    )
