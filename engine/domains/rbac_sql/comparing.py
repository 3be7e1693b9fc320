"""Whether two results are the same: the same multiset of rows, in order where that is asked.

Values are the same when they are equal of one kind. Integers and floats are one kind, and floats
may differ by rounding (1e-9 of their size), so 2 is 2.0; text is never a number, so '2' isn't 2;
NULL is NULL. A row counts as often as it occurs; column names don't count, column order does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap
from typing import Any

Rows = Sequence[Sequence[Any]]

TOLERANCE = 1e-9
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | \[[^\]]*\] | --[^\n]* | /\*.*?\*/
      | \w+ | [()]""",
    re.VERBOSE | re.DOTALL,
)


def same_result(left: Rows, right: Rows, ordered: bool) -> bool:
    """Whether two results hold the same rows."""
    if len(left) != len(right):
        return False
    if not ordered:
        left, right = sorted(left, key=_row_key), sorted(right, key=_row_key)
    return all(starmap(_same_row, zip(left, right, strict=True)))


def _same_row(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(starmap(_same, zip(left, right, strict=True)))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            return False
        return math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(left) is type(right) and bool(left == right)


def _row_key(row: Sequence[Any]) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
    """Sorts rows of all kinds, those that differ by rounding alone side by side: first by rounded
    numbers, then by the numbers themselves."""
    return [_key(value, rounded=True) for value in row], [_key(v, rounded=False) for v in row]


def _key(value: Any, rounded: bool) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, float(f"{value:.8g}") if rounded else value
    return (2, value) if isinstance(value, str) else (3, bytes(value))


def is_ordered(sql: str) -> bool:
    """Whether a reference query orders its own result: ORDER BY outside all parentheses."""
    words = list(_outer_words(sql))
    return any(pair == ("order", "by") for pair in pairwise(words))


def _outer_words(sql: str) -> Iterator[str]:
    depth = 0
    for token in _TOKEN.findall(sql):
        if token in "()":
            depth += 1 if token == "(" else -1
        elif depth == 0 and token[0] not in "'\"`[-/":
            yield token.lower()
