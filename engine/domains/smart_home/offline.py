"""Scoring a predictions file against HomeBench rows, without running anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.domains.reading import contents, fault, lines
from engine.domains.smart_home.row import SUBSETS, subset
from engine.domains.smart_home.scoring import Counts, count, figures
from engine.errors import DataError

FLAGS = "test_flags.json"


@dataclass(frozen=True)
class Figures:
    """Number of rows, Success and micro F1 (fractions of 1)."""

    n: int
    success: float
    f1: float

    def to_json(self) -> dict[str, Any]:
        return {"n": self.n, "success": self.success, "f1": self.f1}


@dataclass(frozen=True)
class ScoreReport:
    """Figures over all rows, by subset, and without the rows whose reference is in doubt."""

    overall: Figures
    by_subset: Mapping[str, Figures] = field(default_factory=dict)
    unflagged: Figures | None = None

    def to_json(self) -> dict[str, Any]:
        """``unflagged`` is there only when the data folder has ``test_flags.json``."""
        report = self.overall.to_json()
        report["by_subset"] = {name: each.to_json() for name, each in self.by_subset.items()}
        if self.unflagged is not None:
            report["unflagged"] = self.unflagged.to_json()
        return report


@dataclass(frozen=True)
class Reference:
    """What scoring needs of a labelled row; ``subset`` is None where the row has no type."""

    where: str
    gold: str
    subset: str | None


def score(data: Path, predictions: Path, gold: Path | None = None) -> ScoreReport:
    """Score lines ``{"id", "commands"}`` by the official counting.

    The references are the rows with ``id`` and ``output`` of every ``*.jsonl`` in ``data`` but
    those named as pools or training files, or of the file ``gold``. A row without a prediction
    is scored as empty. Raises DataError, naming file and line, for an unknown or repeated id
    and for anything malformed.
    """
    references = _references(data, gold)
    answers = _answers(predictions, references)
    counts = {key: count(answers.get(key, ""), row.gold) for key, row in references.items()}
    by_subset = {}
    for name in SUBSETS:
        part = [counts[key] for key, row in references.items() if row.subset == name]
        if part:
            by_subset[name] = _figures(part)
    flagged = _flagged(data / FLAGS)
    unflagged = None
    if flagged is not None:
        unflagged = _figures(each for key, each in counts.items() if key not in flagged)
    return ScoreReport(_figures(counts.values()), by_subset, unflagged)


def _figures(counts: Iterable[Counts]) -> Figures:
    total = sum(counts, Counts())
    found = figures(total.as_dict())
    return Figures(total.n, found["success"], found["f1"])


def _references(data: Path, gold: Path | None) -> dict[str, Reference]:
    references: dict[str, Reference] = {}
    for path in [gold] if gold else _labelled_files(data):
        for where, row in lines(path):
            if "id" not in row or "output" not in row:
                if gold:
                    raise DataError(f"{where}: id, output: expected in every row of a gold file")
                continue
            key = row["id"]
            if not isinstance(key, str):
                raise fault(where, "id", "text", key)
            if key in references:
                first = references[key].where
                raise fault(where, "id", f"an id used once (first at {first})", key)
            references[key] = _reference(row, where)
    if not references:
        raise DataError(
            f"{gold or data}: no row has id and output, so there is nothing to score against; "
            "give the labelled file with --gold"
        )
    return references


def _labelled_files(data: Path) -> list[Path]:
    if not data.is_dir():
        raise DataError(f"{data}: no such folder; --data must name one with labelled *.jsonl files")
    return [path for path in sorted(data.glob("*.jsonl")) if not _is_pool(path.stem.lower())]


def _is_pool(stem: str) -> bool:
    return "pool" in stem or "train" in stem


def _reference(row: Mapping[str, Any], where: str) -> Reference:
    gold, type_name = row["output"], row.get("type")
    if not isinstance(gold, str):
        raise fault(where, "output", "text", gold)
    if type_name is None:
        return Reference(where, gold, None)
    name = subset(type_name) if isinstance(type_name, str) else None
    if name is None:
        raise fault(where, "type", "normal, unexist_* or multiN_normal|mix|unexist_*", type_name)
    return Reference(where, gold, name)


def _answers(predictions: Path, references: Mapping[str, Reference]) -> dict[str, str]:
    answers: dict[str, str] = {}
    for where, row in lines(predictions):
        key, commands = row.get("id"), row.get("commands")
        if not isinstance(key, str):
            raise fault(where, "id", "text", key)
        if key not in references:
            raise fault(where, "id", "an id of the reference rows", key)
        if key in answers:
            raise fault(where, "id", "one prediction for each id", key)
        if "commands" not in row or not isinstance(commands, str | None):
            raise fault(where, "commands", "text such as '{kitchen.light.turn_on()}'", commands)
        answers[key] = commands or ""
    return answers


def _flagged(path: Path) -> set[str] | None:
    if not path.exists():
        return None
    try:
        flags = json.loads(contents(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: line: expected JSON ({error.msg})") from error
    if not isinstance(flags, dict):
        raise fault(f"{path}:1", "file", "an object from id to a list of flags", flags)
    return {key for key, reasons in flags.items() if reasons}
