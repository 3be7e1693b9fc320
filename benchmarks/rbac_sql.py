"""Scoring text-to-SQL predictions: the rate, and what bounded query processes cost.

    python benchmarks/rbac_sql.py [--data ~/spider_rbac] [--predictions 10000]

Answers to the folder's usable items (without --data, to generated ones) are scored as `coevo score
rbac_sql` does it: right SQL, SQL with a wrong result, refusals, and a few statements that would
never end. The baseline is the same answers without the endless ones through one plain sqlite3
connection for each prediction, in this process and without any limit: opened, the policy asked of
the authorizer, prediction and reference run, rows compared. Printed: both rates, their ratio, and
the peak memory of the scorer with its query process.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.domains.rbac_sql import loader
from engine.domains.rbac_sql.client import POOL
from engine.domains.rbac_sql.item import Item, Source
from engine.domains.rbac_sql.offline import ScoreReport, score
from engine.domains.rbac_sql.writing import write

MOST_S, MOST_MB = 60.0, 600.0
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
ENDLESS_LINES = 5


def answers(items: Sequence[Item]) -> list[dict[str, Any]]:
    """One line for each item: three of four answered, every fifth answer with a wrong result, and
    a few that never end."""
    lines: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        gold = item.gold_sql.strip().rstrip(";")
        sql = f"SELECT * FROM ({gold}) LIMIT 0" if number % 5 == 4 else gold
        access = number % 4 < 3
        lines.append({"id": item.id, "access_granted": access, "sql": sql if access else None})
    for line in lines[:: max(len(lines) // ENDLESS_LINES, 1)][:ENDLESS_LINES]:
        line.update(access_granted=True, sql=ENDLESS)
    return lines


def plain(items: Mapping[str, Item], sources: Mapping[str, Source], lines: Sequence[Any]) -> int:
    """The baseline: how many answers are right."""
    right = 0
    for line in lines:
        item = items[line["id"]]
        source = sources[item.database]
        granted = {
            t.lower(): {*map(str.lower, c)} for t, c in source.policy.grants(item.role).items()
        }
        covered = True

        def authorize(
            action: int,
            table: str | None,
            column: str | None,
            *_: Any,
            granted: dict[str, set[str]] = granted,
        ) -> int:
            nonlocal covered
            if action == sqlite3.SQLITE_READ:
                known = granted.get((table or "").lower())
                covered &= known is not None and (not column or column.lower() in known)
            return sqlite3.SQLITE_OK

        connection = sqlite3.connect(source.database["file"])
        if not line["access_granted"]:
            right += item.permission == "denied"
        else:
            connection.set_authorizer(authorize)
            found = Counter(connection.execute(line["sql"]).fetchall())
            allowed = covered and item.permission == "allowed"
            right += allowed and found == Counter(connection.execute(item.gold_sql).fetchall())
        connection.close()
    return right


def timed(data: Path, scratch: Path, lines: Sequence[Any]) -> tuple[ScoreReport, float]:
    """The report on ``lines`` and the seconds it took, files read included."""
    path = scratch / "predictions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    start = time.perf_counter()
    report = score(data, path)
    return report, time.perf_counter() - start


def peak_mb() -> float:
    """Of this process and the largest one it has ended, together."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--predictions", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = options.data or Path(scratch) / "data"
        if options.data is None:
            write(data, "benchmark", 0, {"train": options.predictions})
        folder = loader.read(data)
        items = {item.id: item for item in folder.items[: options.predictions]}
        lines = answers(list(items.values()))
        short = [line for line in lines if line["sql"] != ENDLESS]
        report, whole = timed(data, Path(scratch), lines)
        _, ours = timed(data, Path(scratch), short)
        POOL.close()
        memory = peak_mb()
        start = time.perf_counter()
        right = plain(items, folder.sources, short)
        theirs = time.perf_counter() - start

    n = len(lines)
    if right != report.outcomes["S_c"] + report.outcomes["S_pr"]:
        print(f"the baseline disagrees: {right} right, {dict(report.outcomes)}")
        return 1
    print(f"scored {n} predictions in {whole:.1f} s: {n / whole:.0f} a second ({report.outcomes})")
    endless = n - len(short)
    print(f"{endless} of them never end; the others in {ours:.1f} s")
    print(f"plain connections, no limits, without those {endless}: {theirs:.1f} s")
    print(f"ratio {ours / theirs:.2f} of the baseline's time; peak memory {memory:.0f} MB")
    fits = whole / n * 10_000 < MOST_S and memory < MOST_MB
    print(f"{'within' if fits else 'OVER'} {MOST_S:.0f} s per 10,000 and {MOST_MB:.0f} MB")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
