"""Edits of a harness's source: its list of mechanisms and its named constants.

They work on the text that the syntax tree points at, so that comments and layout stay. All of
them raise ValueError where the harness doesn't follow the convention (a ``MECHANISMS`` list in
harness.py, constants assigned once at the top level), or can't be read at all: an archived harness
may hold anything.
"""

from __future__ import annotations

import ast
import pprint
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

HARNESS = "harness.py"
LIST = "MECHANISMS"
MAX_SOURCE = 2**18
"""Bytes of a longest file that is parsed."""

# What Python's own parser and ``literal_eval`` raise at nonsense, at depth and at memory's end.
_UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)


def module_path(name: str) -> str:
    """Where a mechanism's module stands in a workspace."""
    return f"mechanisms/{name}.py"


def registered(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The mechanisms that harness.py lists, in order; none where it keeps no readable list."""
    return listed(constants(files.get(HARNESS, b""), [LIST]).get(LIST))


def listed(value: Any) -> tuple[str, ...]:
    """The names in the value of ``MECHANISMS``; none where it isn't a list of names."""
    named = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return tuple(value) if named else ()


def register(source: bytes, names: Sequence[str]) -> bytes:
    """harness.py with its list of mechanisms replaced."""
    return set_constant(source, LIST, list(names))


def constant(source: bytes, name: str) -> Any:
    """The value of a top-level constant. Raises ValueError where there is none."""
    return _evaluated(_assignment(_parsed(source), name))


def constants(source: bytes, names: Sequence[str]) -> dict[str, Any]:
    """Those of the top-level constants ``names`` that can be read, from one parse."""
    found = {}
    try:
        tree = _parsed(source)
    except ValueError:
        return {}
    for name in names:
        with suppress(ValueError):
            found[name] = _evaluated(_assignment(tree, name))
    return found


def set_constant(source: bytes, name: str, value: Any) -> bytes:
    """``source`` with the constant ``name`` set to ``value``; a trailing comment stays."""
    node = _assignment(_parsed(source), name)
    assert node.value is not None
    lines = source.splitlines(keepends=True)
    start, end = node.value.lineno - 1, node.value.end_lineno or node.value.lineno
    before = lines[start][: node.value.col_offset]
    after = lines[end - 1][node.value.end_col_offset :]
    text = before + _literal(value, len(before)).encode() + after
    return b"".join([*lines[:start], text, *lines[end:]])


def support(source: bytes) -> tuple[str, ...]:
    """The modules under ``mechanisms`` that a mechanism imports. Raises ValueError where it can't
    be read."""
    names: list[str] = []
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "mechanisms":
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mechanisms."):
            names.append(str(node.module).partition(".")[2])
    return tuple(dict.fromkeys(names))


def _parsed(source: bytes) -> ast.Module:
    if len(source) > MAX_SOURCE:
        raise ValueError(f"larger than {MAX_SOURCE} bytes")
    try:
        return ast.parse(source)
    except _UNREADABLE as error:
        raise ValueError(f"not Python: {error or type(error).__name__}") from None


def _evaluated(node: ast.Assign | ast.AnnAssign) -> Any:
    assert node.value is not None
    try:
        return ast.literal_eval(node.value)
    except _UNREADABLE as error:
        raise ValueError(f"no literal: {error or type(error).__name__}") from None


def _assignment(tree: ast.Module, name: str) -> ast.Assign | ast.AnnAssign:
    found = [
        node
        for node in tree.body
        if (isinstance(node, ast.AnnAssign) and node.value and _named([node.target], name))
        or (isinstance(node, ast.Assign) and _named(node.targets, name))
    ]
    if len(found) != 1:
        raise ValueError(f"no single top-level assignment of {name}")
    return found[0]


def _named(targets: Sequence[ast.expr], name: str) -> bool:
    return len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name


def _literal(value: Any, column: int) -> str:
    """A literal as a person would write it."""
    if isinstance(value, str) and "\n" in value:
        return '"""\\\n' + value.replace("\\", "\\\\").replace('"""', "'''") + '"""'
    if isinstance(value, str):
        text = repr(value)
        return text if '"' in value else '"' + text[1:-1].replace("\\'", "'") + '"'
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        one_line = "[" + ", ".join(_literal(each, 0) for each in value) + "]"
        if column + len(one_line) <= 90:
            return one_line
        return "[\n" + "".join(f"    {_literal(each, 0)},\n" for each in value) + "]"
    return pprint.pformat(value, width=90)
