"""Reading JSON lines with errors that name file, line, field and what was expected."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import DataError

_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class Line(NamedTuple):
    """One JSON object of a file, and where it stands (``file:line``)."""

    where: str
    row: Mapping[str, Any]


def fault(where: str, field: str, expected: str, value: object) -> DataError:
    """The error for a wrong ``field`` at ``where``; long values are cut."""
    shown = repr(value)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return DataError(f"{where}: {field}: expected {expected}, got {shown}")


@contextmanager
def tolerating(skipped: list[str] | None) -> Iterator[None]:
    """Where there is a list, a DataError inside becomes a line in it and the block is left;
    without one it is raised."""
    try:
        yield
    except DataError as error:
        if skipped is None:
            raise
        skipped.append(str(error))


def lines(path: Path, skipped: list[str] | None = None) -> Iterator[Line]:
    """The objects of a JSON lines file; blank lines are skipped. Raises DataError, for a line that
    is no object only where ``skipped`` doesn't take it."""
    for number, text in enumerate(contents(path).split("\n"), start=1):
        if not text.strip():
            continue
        where = f"{path}:{number}"
        row: Mapping[str, Any] | None = None
        with tolerating(skipped):
            row = _object(text, where)
        if row is not None:
            yield Line(where, row)


def _object(text: str, where: str) -> Mapping[str, Any]:
    try:
        row = parsed(text)
    except (ValueError, RecursionError) as error:
        # ValueError: not JSON, or a number too long to read; RecursionError: nested too deep.
        raise DataError(f"{where}: line: expected JSON ({error})") from error
    if not isinstance(row, dict):
        raise fault(where, "line", "a JSON object", row)
    return row


def parsed(text: str) -> Any:
    """The value of JSON text. Raises ValueError, for half a character (``\\ud83d`` alone) too: no
    file could hold what is made of it."""
    value = json.loads(text)
    if _HALF.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise ValueError(f"{half} is half a character: its other half is missing") from None
    return value


def contents(path: Path) -> str:
    """The text of a file. Raises DataError when it can't be read or isn't UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: can't be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, byte {error.start} is not") from error


def text_field(row: Mapping[str, Any], field: str, where: str, prefix: str = "") -> str:
    """A text field that is not blank. Raises DataError."""
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise fault(where, prefix + field, "text", value)
    return value


def integer(value: Any, field: str, where: str) -> int:
    """A whole number, written as one or as digits in a string. Raises DataError."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise fault(where, field, "a whole number", value) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise fault(where, field, "a whole number", value)
    return value


def mapping(value: Any, field: str, where: str) -> Mapping[str, Any]:
    """A JSON object. Raises DataError."""
    if not isinstance(value, dict):
        raise fault(where, field, "an object", value)
    return value


def sequence(value: Any, field: str, where: str) -> Sequence[Any]:
    """A JSON array. Raises DataError."""
    if not isinstance(value, list):
        raise fault(where, field, "a list", value)
    return value
