"""Scoring a predictions file against labelled logs, without any model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.domains.attribution import loader
from engine.domains.attribution.scoring import Answer, counts, figures, objective
from engine.domains.reading import fault, integer, lines, text_field, tolerating
from engine.errors import DataError


@dataclass(frozen=True)
class Figures:
    """Accuracies over ``n`` logs, fractions of 1; ``official_*`` by the substring test."""

    n: int
    agent_accuracy: float
    step_accuracy: float
    official_agent_accuracy: float
    official_step_accuracy: float

    def to_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "agent_accuracy": self.agent_accuracy,
            "step_accuracy": self.step_accuracy,
            "objective": objective(self.agent_accuracy, self.step_accuracy),
            "official": {
                "agent_accuracy": self.official_agent_accuracy,
                "step_accuracy": self.official_step_accuracy,
            },
        }


@dataclass(frozen=True)
class ScoreReport:
    """Figures over all logs and by subset. ``skipped`` lists malformed rows, ``dropped`` counts
    the logs that each filter left out."""

    overall: Figures
    by_source: Mapping[str, Figures]
    skipped: Sequence[str] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """``dropped`` is there only where filters were asked for."""
        report = self.overall.to_json()
        report["by_source"] = {name: each.to_json() for name, each in self.by_source.items()}
        if self.dropped:
            report["dropped"] = dict(self.dropped)
        return report


def score(
    data: Path, predictions: Path, *, filters: Sequence[str] = (), skip_bad_rows: bool = False
) -> ScoreReport:
    """Score lines ``{"id", "agent", "step"}`` against the logs of Who&When (``Hand-Crafted/12``)
    and TracerTraj (its question_ID). A log without a line counts as wrong.

    Raises DataError, naming file and line, for an unknown id, and for anything malformed; with
    ``skip_bad_rows`` malformed rows of either side are listed instead. ConfigError for an unknown
    filter. Lines for logs that were left out are passed over.
    """
    found = loader.read(data, filters=filters, skip_bad_rows=skip_bad_rows)
    if not found.traces:
        raise DataError(f"{data}: no log is left to score against")
    skipped = list(found.skipped)
    given = _predictions(predictions, data, found, skipped if skip_bad_rows else None)
    counted = [
        (trace.source, counts(trace.mistake_agent, trace.mistake_step, given.get(trace.id)))
        for trace in found.traces
    ]
    sources = sorted({source for source, _ in counted})
    return ScoreReport(
        overall=_figures(each for _, each in counted),
        by_source={
            name: _figures(each for source, each in counted if source == name) for name in sources
        },
        skipped=skipped,
        dropped=found.dropped,
    )


def _figures(counted: Iterable[Mapping[str, float]]) -> Figures:
    total: Counter[str] = Counter()
    for each in counted:
        total.update(each)
    found = figures(total)
    return Figures(
        n=int(total["n"]),
        agent_accuracy=found["agent_accuracy"],
        step_accuracy=found["step_accuracy"],
        official_agent_accuracy=found["official_agent_accuracy"],
        official_step_accuracy=found["official_step_accuracy"],
    )


def _predictions(
    path: Path, data: Path, found: loader.Collection, skipped: list[str] | None
) -> dict[str, Answer]:
    """Answers by id; malformed lines are added to ``skipped`` where there is such a list."""
    known = {trace.id for trace in found.traces}
    given: dict[str, Answer] = {}
    for where, row in lines(path, skipped):
        key = ""
        with tolerating(skipped):
            key = text_field(row, "id", where)
            answer = Answer(
                text_field(row, "agent", where), integer(row.get("step"), "step", where)
            )
            if key in given:
                raise fault(where, "id", "one prediction for each id", key)
            if key in known:
                given[key] = answer
        if key and key not in known and key not in found.absent:
            raise fault(where, "id", f"the id of a log in {data}", key)
    return given
