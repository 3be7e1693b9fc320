"""Scoring a predictions file against the role-conditioned Spider items, without any model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.domains.rbac_sql import loader
from engine.domains.rbac_sql.client import POOL
from engine.domains.rbac_sql.item import Item, Source
from engine.domains.rbac_sql.scoring import (
    OUTCOMES,
    RIGHT,
    Answer,
    Routed,
    counts,
    figures,
    outcome,
    parse_answer,
    routing,
)
from engine.domains.reading import contents, fault, mapping, text_field
from engine.errors import DataError

RULE, LLM = "rule", "llm"


@dataclass(frozen=True)
class Prediction:
    """One line: the answer, and what decided it where the line says so."""

    answer: Answer
    route: str | None


@dataclass(frozen=True)
class ScoreReport:
    """Figures (fractions of 1) over ``n`` items and the counts of all outcomes. ``routed`` is None
    where not every prediction says what decided it; ``skipped`` lists bad rows."""

    n: int
    figures: Mapping[str, float]
    outcomes: Mapping[str, int]
    routed: Routed | None
    skipped: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        routed = dict.fromkeys(Routed._fields) if self.routed is None else self.routed._asdict()
        return {"n": self.n, **self.figures, **routed, "outcomes": dict(self.outcomes)}


def score(
    data: Path, predictions: Path, *, everything: bool = False, skip_bad_rows: bool = False
) -> ScoreReport:
    """Score lines ``{"id", "access_granted", "sql"}`` and, if given, ``"route"`` (``rule`` or
    ``llm``). An item without a line is ``unanswered``.

    Only usable items count unless ``everything``; lines for the others are passed over. Raises
    DataError, naming file and line, for an unknown id, and for anything malformed; with
    ``skip_bad_rows`` malformed rows of either file are listed instead.
    """
    folder = loader.read(data, everything=everything, skip_bad_rows=skip_bad_rows)
    if not folder.items:
        raise DataError(f"{data / loader.ITEMS}: no usable item to score against")
    skipped = list(folder.skipped)
    given = _predictions(predictions, folder, skipped if skip_bad_rows else None)
    classes = {
        item.id: _outcome(item, folder.sources[item.database], given.get(item.id))
        for item in sorted(folder.items, key=lambda item: (item.database, item.gold_sql))
    }
    total: Counter[str] = Counter()
    for item in folder.items:
        total.update(counts(item.permission, classes[item.id]))
    return ScoreReport(
        n=len(folder.items),
        figures=figures(total),
        outcomes={name: int(total[name]) for name in OUTCOMES},
        routed=_routed(len(folder.items), given, classes),
        skipped=skipped,
    )


def _outcome(item: Item, source: Source, prediction: Prediction | None) -> str:
    if prediction is None:
        return outcome(item.permission, None, None)
    answer, judged = prediction.answer, None
    if answer.sql:
        grants = source.policy.grants(item.role)
        judged = POOL.judge(source.database, answer.sql, item.gold_sql, grants)
    return outcome(item.permission, answer, judged)


def _routed(n: int, given: Mapping[str, Prediction], classes: Mapping[str, str]) -> Routed | None:
    if not given or any(prediction.route is None for prediction in given.values()):
        return None
    by_rule = [key for key, prediction in given.items() if prediction.route == RULE]
    return routing(
        n, len(given) - len(by_rule), len(by_rule), sum(classes[key] in RIGHT for key in by_rule)
    )


def _predictions(
    path: Path, folder: loader.Folder, skipped: list[str] | None
) -> dict[str, Prediction]:
    """Predictions by id; malformed ones are added to ``skipped`` where there is such a list."""
    known = {item.id for item in folder.items}
    given: dict[str, Prediction] = {}
    for where, line in _lines(path):
        try:
            key, prediction = _prediction(line, where)
            if key in given:
                raise fault(where, "id", "one prediction for each id", key)
        except DataError as error:
            if skipped is None:
                raise
            skipped.append(str(error))
            continue
        if key in known:
            given[key] = prediction
        elif key not in folder.left_out:
            raise fault(where, "id", f"an id of {folder.path / loader.ITEMS}", key)
    return given


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(contents(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line


def _prediction(line: str, where: str) -> tuple[str, Prediction]:
    try:
        row = mapping(json.loads(line), "line", where)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: line: expected JSON ({error})") from error
    access, sql, route = row.get("access_granted"), row.get("sql"), row.get("route")
    if not isinstance(access, int) or access not in (0, 1):
        raise fault(where, "access_granted", "true or false", access)
    if not isinstance(sql, str | None):
        raise fault(where, "sql", "text or null", sql)
    if route not in (None, RULE, LLM):
        raise fault(where, "route", f"{RULE} or {LLM}", route)
    answer = parse_answer(row)
    assert answer is not None
    return text_field(row, "id", where), Prediction(answer, route)
