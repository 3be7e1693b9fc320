"""Recorded rollouts in short, for editors to read: what was asked, done, answered and scored.

Nothing here knows a label: the records are what the archive keeps, under opaque task ids. But an
answer that earned something is the reference answer, or part of it, so what was
said there is left out.
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


_LEFT_OUT = "[left out: it earned a score]"


def shown(data: bytes) -> bytes:
    """The JSON lines of rollouts as editors may read them."""
    lines = (json.dumps(_shown(record), ensure_ascii=False) for record in _read(data))
    return "".join(line + "\n" for line in lines).encode()


def _read(data: bytes) -> Iterator[dict[str, Any]]:
    return (json.loads(raw) for raw in data.splitlines() if raw.strip())


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    """A record without its answer where that earned anything. Any turn may hold it (a draft, a
    check of it), so what was said is left out but for the first request."""
    if not record["score"] > 0:
        return record
    trajectory = record["trajectory"]
    first, *others = trajectory["events"] or [{}]
    events = [first if first.get("kind") == "request" else _without(first), *map(_without, others)]
    return {**record, "trajectory": {**trajectory, "events": events, "answer": _LEFT_OUT}}


def _without(event: dict[str, Any]) -> dict[str, Any]:
    """An event with its kind, its turn and its figures alone."""
    kept = ("kind", "turn", "name", "violation", "prompt_tokens", "completion_tokens", "latency_s")
    return {key: value if key in kept else _LEFT_OUT for key, value in event.items()}


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
    for record in _read(data):
        yield _rollout(_shown(record)) + "\n"


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
            if event["messages"] == _LEFT_OUT:  # it had called something before
                return _LEFT_OUT
            said = [m.get("content") for m in event["messages"] if m.get("role") == "user"]
            return str(said[-1])[-_SHORT:] if said else ""
    return ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else line[: _SHORT - 3] + "..."
