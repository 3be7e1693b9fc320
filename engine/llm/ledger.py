"""The file that calls are counted in: JSON lines, one as a call begins and one as it ends.

A call that began and never ended (its process was killed) still counts as a call, so that counts
are exact whatever happens; what it used is unknown. A torn last line is such an end, or the begin
of a call that was never sent: it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import ConfigError
from engine.llm import lines
from engine.llm.usage import Usage

SCHEMA = 1


@dataclass(frozen=True)
class Entry:
    """One call's usage, and whose it was. ``work`` tells tries of one session's work from those of
    another under its name; '' where it doesn't matter."""

    round: int
    role: str
    session: str
    model: str
    usage: Usage
    work: str = ""


def ledger_path(root: Path, run: str) -> Path:
    """Where the calls of a run are counted."""
    return root / ".coevo" / "costs" / f"{run}.jsonl"


def entries(path: Path) -> list[Entry]:
    """Every call in the file, in the order in which they began; none where there is no file.

    Raises ConfigError for a file of another schema.
    """
    begun: dict[str, dict[str, Any]] = {}
    used: dict[str, Usage] = {}
    for line in lines.read(path, "call"):
        if "usage" not in line:
            if line.get("schema") != SCHEMA:
                raise ConfigError(
                    f"{path}: costs of schema {line.get('schema')!r}, this version reads {SCHEMA}; "
                    "move the file away to count from zero"
                )
            begun[line["call"]] = line
        elif line["call"] in begun:
            used[line["call"]] = Usage(**line["usage"])
    unknown = Usage(calls=1, unanswered=1)
    return [
        Entry(
            b["round"],
            b["role"],
            b["session"],
            b["model"],
            used.get(call, unknown),
            b.get("work", ""),
        )
        for call, b in begun.items()
    ]


def by_role(path: Path) -> Mapping[tuple[int, str], Usage]:
    """What each role used in each round (number, role), as far as the file tells; rounded, so that
    sums are the same wherever they are made."""
    used: dict[tuple[int, str], Usage] = {}
    for call in entries(path):
        key = call.round, call.role
        used[key] = used.get(key, Usage()) + call.usage
    return {
        key: replace(whole, seconds=round(whole.seconds, 2), usd=round(whole.usd, 6))
        for key, whole in used.items()
    }
