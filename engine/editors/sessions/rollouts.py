"""Recorded rollouts in short, for editors to read: what was asked, done, answered and scored.

Nothing here knows a label: the records are what the archive keeps, under opaque task ids.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.archive.entries import Pair
from engine.context import Context
from engine.errors import DataError

_SHORT = 320
_ELSEWHERE = "The rollouts of this pair are not on this machine, and no DVC remote has them.\n"


def records(context: Context, pair: Pair, scratch: Path) -> bytes | None:
    """The JSON lines of a pair's rollouts: from the work tree, DVC's cache or its remote; None
    where none of them has them."""
    kept = context.root / ".coevo" / "rollouts" / context.params.run / f"{pair.label}.jsonl"
    if kept.is_file():
        return kept.read_bytes()
    path = scratch / f"{pair.oid}.jsonl"
    try:
        text = context.archive.read(pair.oid, "rollouts.dvc").decode()
        return context.dvc.materialise(text, path).read_bytes()
    except DataError:
        return None
    finally:
        path.unlink(missing_ok=True)


def summary(context: Context, pair: Pair) -> str:
    """A pair's rollouts, a few lines each; made once for each pair and kept."""
    path = context.root / ".coevo" / "summaries" / f"{pair.oid}.md"
    if path.is_file():
        return path.read_text("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    found = records(context, pair, path.parent)
    if found is None:
        return _ELSEWHERE
    text = "".join(_lines(found))
    partial = path.with_suffix(".partial")
    partial.write_text(text, "utf-8")
    partial.replace(path)
    return text


def _lines(data: bytes) -> Iterator[str]:
    for raw in data.splitlines():
        if raw.strip():
            yield _rollout(json.loads(raw)) + "\n"


def _rollout(record: Mapping[str, Any]) -> str:
    trajectory = record["trajectory"]
    events = trajectory["events"]
    called = Counter(event["name"] for event in events if event["kind"] == "call")
    violations = [e["violation"] for e in events if e["kind"] == "reply" and e["violation"]]
    lines = [
        f"## {record['task']}: score {record['score']:g}, {trajectory['end']}"
        + (f", {record['failure']}" if record["failure"] else ""),
        (
            f"{trajectory['turns']} turns, {trajectory['prompt_tokens']} prompt and "
            f"{trajectory['completion_tokens']} completion tokens"
        ),
        f"asked: {_short(_asked(events))}",
        f"calls: {', '.join(f'{name} x{n}' for name, n in called.items()) or 'none'}",
        f"answer: {_short(json.dumps(trajectory['answer'], ensure_ascii=False))}",
    ]
    if violations:
        lines.append(f"violations: {', '.join(violations)}")
    if trajectory["error"]:
        lines.append(f"error: {_short(trajectory['error'])}")
    return "\n".join(lines) + "\n"


def _asked(events: list[dict[str, Any]]) -> str:
    """The end of the first request's last user message: where a harness puts the task."""
    for event in events:
        if event["kind"] == "request":
            said = [m.get("content") for m in event["messages"] if m.get("role") == "user"]
            return str(said[-1])[-_SHORT:] if said else ""
    return ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else line[: _SHORT - 3] + "..."
