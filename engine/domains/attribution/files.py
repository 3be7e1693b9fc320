"""Finding the labelled logs in a folder: Who&When's files, and TracerTraj's as JSON lines or
Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.domains.reading import contents, lines, mapping, parsed, text_field, tolerating
from engine.errors import DataError

WHO_AND_WHEN = ("Algorithm-Generated", "Hand-Crafted")
TRACERTRAJ = "TracerTraj-Code"
_PLACES = ("", "who_and_when", "Who&When", "tracertraj_code")
_GET = (
    "Who&When is github.com/ag2ai/Agents_Failure_Attribution (folders Algorithm-Generated and "
    "Hand-Crafted of N.json), TracerTraj-Code github.com/bingreeky/AgenTracer "
    "(tracertraj-code*.jsonl or .parquet)"
)


@dataclass(frozen=True)
class Row:
    """A log as it stands in its file. ``key`` is its id where the file's place gives it, '' where
    the row's ``question_ID`` does."""

    where: str
    source: str
    key: str
    fields: Mapping[str, Any]


def rows(data: Path, skipped: list[str] | None = None) -> Iterator[Row]:
    """Every labelled log below ``data``, in a fixed order.

    ``data`` is a folder that holds the subsets' folders or TracerTraj's file, or has one with
    them, or is a subset's folder. Raises DataError for a folder with none of it and for what can't
    be read, the latter only where ``skipped`` doesn't take it.
    """
    if not data.is_dir():
        raise DataError(f"{data}: no such folder; {_GET}")
    logs, tables = _logs(data), _tables(data)
    if not logs and not tables:
        raise DataError(f"{data}: neither Who&When nor TracerTraj is here; {_GET}")
    for path in logs:
        fields: Mapping[str, Any] | None = None
        with tolerating(skipped):
            fields = _document(path)
        if fields is not None:
            source = path.parent.resolve().name
            yield Row(str(path), source, f"{source}/{path.stem}", fields)
    for path in tables:
        for where, fields in _table(path, skipped):
            yield Row(where, TRACERTRAJ, "", fields)


def _logs(data: Path) -> list[Path]:
    folders = [data] if data.resolve().name in WHO_AND_WHEN else []
    folders += [data / place / subset for place in _PLACES for subset in WHO_AND_WHEN]
    return [path for folder in folders for path in sorted(folder.glob("*.json"), key=_by_number)]


def _by_number(path: Path) -> tuple[int, str]:
    return (int(path.stem) if re.fullmatch(r"\d{1,9}", path.stem) else -1, path.stem)


def _tables(data: Path) -> list[Path]:
    """TracerTraj's files; the same rows in both forms are read once, as JSON lines."""
    found: dict[str, Path] = {}
    for place in _PLACES:
        for suffix in (".jsonl", ".parquet"):
            for path in sorted((data / place).glob(f"*{suffix}")):
                if path.name.lower().startswith("tracertraj"):
                    found.setdefault(str(path.with_suffix("")), path)
    return list(found.values())


def _document(path: Path) -> Mapping[str, Any]:
    try:
        value = parsed(contents(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: file: expected JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: file: expected JSON ({error})") from error
    return mapping(value, "file", str(path))


def _table(path: Path, skipped: list[str] | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if path.suffix == ".jsonl":
        yield from lines(path, skipped)
        return
    for number, row in enumerate(_parquet(path), start=1):
        yield f"{path}:{number}", row


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(
            f"{path}: Parquet needs pyarrow: install it (pip install 'coevo[parquet]'), or put the "
            f"same rows beside it as {path.stem}.jsonl"
        ) from error
    try:
        found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except (OSError, arrow.ArrowException) as error:
        raise DataError(f"{path}: expected a Parquet file ({error})") from error
    return found


def row_id(row: Row) -> str:
    """The id of a log. Raises DataError where it has none."""
    return row.key or text_field(row.fields, "question_ID", row.where)
