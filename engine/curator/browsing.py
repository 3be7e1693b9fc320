"""The actions of a Curator that is a language model: index, read, stop (paper eq. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.brief import Inspection
from engine.errors import ArchiveError
from engine.llm.dialogue import SentBack, tool
from engine.view import ArchiveView, HarnessSummary, find, gain
from kernel.contract import ToolCall

_SHOWN = 600
_START = {"type": "integer", "minimum": 0}

INDEX = tool(
    "index",
    "A page of the archive's index, a harness a line, the newest first; start is the line to begin "
    "with. One action.",
    {"start": _START},
    optional=["start"],
)
READ = tool(
    "read",
    "A file of a harness, by its label or hash (evolution_report.md, harness.py, rollouts.md), "
    "from line start on. One action.",
    {"harness": {"type": "string"}, "file": {"type": "string"}, "start": _START},
    optional=["start"],
)
STOP = tool("stop", "End the inspection.", {"why": {"type": "string"}}, optional=["why"])
TOOLS = (INDEX, READ, STOP)


class Browsing:
    """One inspection of the archive: what was done, and how many of ``budget`` actions are left."""

    def __init__(self, view: ArchiveView, budget: int) -> None:
        self._view = view
        self.entries = tuple(view.index())
        self.left = budget
        self.inspections: list[Inspection] = []

    def act(self, call: ToolCall, room: int) -> str:
        """What an action gives, in about ``room`` characters. Raises SentBack for a harness that
        isn't there, which costs no action."""
        if call.name == "stop":
            self.left = 0
            self._note("stop", "", str(call.arguments.get("why", "")))
            return "the inspection has ended"
        if not self.left:
            return "the budget of the inspection is used up"
        start = int(call.arguments.get("start", 0))
        if call.name == "index":
            text = self._index(start, room)
        else:
            text = self._read(call.arguments["harness"], call.arguments["file"], start, room)
        self.left -= 1
        return f"{text}\n({self.left} actions left)"

    def exhaust(self, why: str) -> None:
        """End the inspection before its budget is used up."""
        if self.left:
            self.left = 0
            self._note("stop", "", why)

    def _index(self, start: int, room: int) -> str:
        by_oid = {entry.oid: entry for entry in self.entries}
        lines = [line(entry, by_oid) for entry in reversed(self.entries)]
        page = _page(lines, start, room)
        self._note("index", f"from {start}", f"{len(lines)} entries")
        return page

    def _read(self, name: str, path: str, start: int, room: int) -> str:
        entry = find(name, self.entries)
        if entry is None:
            raise SentBack(f"{name[:80]!r} is no harness of the archive; `index` lists them")
        target = f"{entry.oid[:12]}:{path}" + (f" from line {start}" if start else "")
        try:
            text = self._view.read(entry.oid, path).decode("utf-8", "replace")
        except ArchiveError:
            self._note("read", target, "(not there)")
            names = ", ".join(sorted(self._view.files(entry.oid)))
            return f"{entry.label} has no file {path[:80]!r}; it has: {names}"[:room]
        page = _page(text.splitlines(), start, room)
        self._note("read", target, page)
        return page

    def _note(self, action: str, target: str, result: str) -> None:
        self.inspections.append(Inspection(action, target, result[:_SHOWN]))


def line(entry: HarnessSummary, entries: Mapping[str, HarnessSummary]) -> str:
    """A harness on one line of the index."""
    base = entries.get(entry.base or "")
    improved = gain(entry, entries)
    state = f"rejected ({entry.check[:80]})" if entry.rejected else "valid"
    adopts = [entries[each.oid].label for each in entry.adopts if each.oid in entries]
    parts = (
        f"{entry.label} {entry.oid[:12]}",
        "INCUMBENT" if entry.incumbent else state,
        f"objective {_figure(entry.scalar)}",
        f"score {_figure(entry.score)}",
        f"TIMR {_figure(entry.timr)}",
        f"weights {entry.checkpoint or '-'}",
        f"base {base.label if base else '-'}"
        + ("" if improved is None else f", {improved:+.3f} on it"),
        f"adopts {', '.join(adopts) or '-'}",
        f"mechanisms {', '.join(entry.mechanisms) or '-'}",
        entry.subject,
    )
    return "; ".join(" ".join(part.split()) for part in parts)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _page(lines: Sequence[str], start: int, room: int) -> str:
    """Whole lines from ``start`` on that fit, and how to go on where some are left."""
    kept: list[str] = []
    used = 0
    for each in lines[start:]:
        used += len(each.encode()) + 1
        if used > room and kept:
            break
        kept.append(each.encode()[:room].decode("utf-8", "ignore"))
    after = start + len(kept)
    if not kept:
        return f"nothing from line {start} on; there are {len(lines)} lines"
    more = f"\n... {len(lines) - after} more lines; go on with start {after}"
    return "\n".join(kept) + (more if after < len(lines) else "")
