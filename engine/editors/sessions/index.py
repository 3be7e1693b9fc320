"""The index of the archive that editors start from, whole as a file and cut for a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.view import HarnessSummary

FILE = "INDEX.md"
_MORE = "... and {} more: INDEX.md has them all, one a line; grep it"
_HEAD = """\
label, hash: state; objective on V; score; TIMR; weights; base; adopted designs; mechanisms; subject
"""


def whole(entries: Sequence[HarnessSummary]) -> str:
    """INDEX.md: every harness, the newest first."""
    lines = [line(entry, _labels(entries)) for entry in reversed(entries)]
    return f"# {len(entries)} archived harnesses\n\n{_HEAD}\n" + "\n".join(lines) + "\n"


def excerpt(entries: Sequence[HarnessSummary], budget: int) -> str:
    """The lines that fit into ``budget`` UTF-8 bytes: the incumbent, then the best and the newest
    by turns; a note says how many more there are and where."""
    labels = _labels(entries)
    order = _telling(entries)
    kept: list[str] = []
    used = len((_HEAD + _MORE).encode()) + 8
    for entry in order:
        text = line(entry, labels)
        used += len(text.encode()) + 1
        if used > budget:
            break
        kept.append(text)
    left = len(order) - len(kept)
    more = [_MORE.format(left)] if left else []
    return _HEAD + "\n".join([*kept, *more])


def line(entry: HarnessSummary, labels: Mapping[str, str]) -> str:
    """One harness on one line."""
    state = f"rejected ({entry.check[:160]})" if entry.rejected else "valid"
    state = "INCUMBENT" if entry.incumbent else state
    adopts = ", ".join(f"{labels.get(a.oid, a.oid[:12])} ({a.mechanism})" for a in entry.adopts)
    base = labels.get(entry.base or "", (entry.base or "none")[:12])
    parts = (
        state,
        _figure(entry.scalar),
        _figure(entry.score),
        _figure(entry.timr),
        entry.checkpoint or "-",
        f"base {base}",
        f"adopts {adopts or 'nothing'}",
        ", ".join(entry.mechanisms) or "-",
        entry.subject,
    )
    return f"- {entry.label}, {entry.oid[:12]}: " + "; ".join(" ".join(p.split()) for p in parts)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _labels(entries: Sequence[HarnessSummary]) -> dict[str, str]:
    return {entry.oid: entry.label for entry in entries}


def _telling(entries: Sequence[HarnessSummary]) -> list[HarnessSummary]:
    """Every entry once: the incumbent, then from the best and from the newest by turns."""
    newest = list(reversed(entries))
    best = sorted(newest, key=lambda e: -(e.scalar if e.scalar is not None else float("-inf")))
    turns = (entry for pair in zip(best, newest, strict=True) for entry in pair)
    first = [entry for entry in entries if entry.incumbent]
    return list({entry.oid: entry for entry in [*first, *turns]}.values())
