"""An evaluation as tables, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.self_evolution.evaluation import Evaluated, Iteration
from engine.self_evolution.mechanisms import MECHANISMS
from engine.self_evolution.report import FamilyFigures
from engine.statistics import Average


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """In columns, figures to the right."""
        lines = (self.head, *self.rows)
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        shown = (
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )
        return "\n".join([self.title, *(f"  {line}" for line in shown)]) + "\n"

    def markdown(self) -> str:
        """A pipe table."""
        align = ["---", *["---:"] * (len(self.head) - 1)]
        lines = ([_escaped(c) for c in line] for line in self.rows)
        shown = (f"| {' | '.join(line)} |" for line in (self.head, align, *lines))
        return "\n".join([f"**{self.title}**", "", *shown]) + "\n"


def tables(done: Sequence[Evaluated], history: Sequence[Iteration]) -> list[Table]:
    """Scores, mechanisms, end reasons, and lines by iteration."""
    return [_scores(done), _mechanisms(done), _ends(done), _lines(history)]


def _scores(done: Sequence[Evaluated]) -> Table:
    first = done[0].report.families
    rows = [_family_row(done, row) for row in first]
    for name in ("in_distribution", "out_of_distribution", "overall"):
        averages: list[Average | None] = [getattr(each.report, name) for each in done]
        name = "all families" if name == "overall" else name.replace("_", " ")
        if any(averages):
            rows.append((name, "", *(_interval(average) for average in averages)))
    for place, name in enumerate(("gain in distribution", "gain out of distribution")):
        gains = [each.gains[place] for each in done]
        if any(gains):
            rows.append((name, "", *(_interval(each, sign=True) for each in gains)))
    if any(each.cheats for each in done):
        rows.append(("confirmed cheating", "", *(str(each.cheats) for each in done)))
    rows.append(("lines of Python", "", *("" if e.lines is None else str(e.lines) for e in done)))
    level = done[0].report.overall.level
    title = (
        f"Scores x 100 on {done[0].outcome.split} ({level:.0%} bootstrap over tasks; averages "
        "weigh families equally)"
    )
    return Table(title, ("family", "tasks", *(e.version.label for e in done)), tuple(rows))


def _family_row(done: Sequence[Evaluated], row: FamilyFigures) -> tuple[str, ...]:
    name = f"{row.family}{' (ood)' if row.ood else ''}"
    own = [_of(each, row.family) for each in done]
    return (name, f"{row.tasks}x{row.executions}", *(_interval(each.score) for each in own))


def _mechanisms(done: Sequence[Evaluated]) -> Table:
    rows = []
    for row in done[0].report.families:
        for each in done:
            own = _of(each, row.family)
            rates = [own.overflow, *(own.mechanisms[name] for name in MECHANISMS)]
            rows.append((f"{row.family}, {each.version.label}", *(f"{r:.0%}" for r in rates)))
    head = ("family, version", "overflow", *MECHANISMS)
    return Table("Share of rollouts with overflow and with each mechanism", head, tuple(rows))


def _ends(done: Sequence[Evaluated]) -> Table:
    seen = dict.fromkeys(end for each in done for row in each.report.families for end in row.ends)
    rows = [
        (f"{row.family}, {each.version.label}",
         *(str(_of(each, row.family).ends.get(end, 0)) for end in seen))
        for row in done[0].report.families
        for each in done
    ]  # fmt: skip
    return Table("How rollouts ended", ("family, version", *seen), tuple(rows))


def _lines(history: Sequence[Iteration]) -> Table:
    rows = tuple((str(i.round), i.label, str(i.lines), str(i.added), i.subject) for i in history)
    head = ("iteration", "harness", "lines", "added", "change")
    return Table("Python lines by iteration", head, rows)


def _of(each: Evaluated, family: str) -> FamilyFigures:
    return next(row for row in each.report.families if row.family == family)


def _interval(average: Average | None, *, sign: bool = False) -> str:
    if average is None:
        return ""
    mean, low, high = (100 * value for value in (average.mean, average.low, average.high))
    return f"{mean:{'+' if sign else ''}.2f} [{low:.1f}, {high:.1f}]"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
