"""Whether an offspring carries answers: task ids, validation text, literal tables, blobs.

Only what is new against the base is looked at. String constants are read from the syntax tree,
with adjacent and added pieces joined, and all files as text with spaces evened out.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LONG = 32
"""Characters from which a string shared with a validation task is no accident."""
TABLE_ITEMS = 80
BLOB_CHARS = 120
_BLOB = re.compile(rf"[A-Za-z0-9+/=_\\-]{{{BLOB_CHARS},}}")


@dataclass(frozen=True)
class Forbidden:
    """What no harness may hold of the frozen splits: ids of any task, and the instructions and
    reference answers of validation."""

    ids: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, ids: Sequence[str], texts: Sequence[str]) -> Forbidden:
        """Ids too short to be told from words, and texts too short to be no accident, are left
        out."""
        long = (even(text) for text in texts)
        distinct = frozenset(each for each in ids if len(each) >= 4)
        return cls(distinct, tuple(dict.fromkeys(text for text in long if len(text) >= LONG)))


def leaks(
    files: Mapping[str, bytes], base: Mapping[str, bytes], forbidden: Forbidden
) -> Iterator[str]:
    """One line for each thing found, without repeating what it holds."""
    before = "\n".join(_text(content) for content in base.values())
    known = even(before)
    known_words = set(_words(before))
    for name, content in files.items():
        if base.get(name) == content:
            continue
        text = _text(content)
        found = forbidden.ids & (set(_words(text)) - known_words)
        if found:
            yield f"{name} holds {len(found)} task id(s)"
        if any(_carries(each, forbidden, known) for each in _strings(name, text)):
            yield f"{name} holds text of a validation task"
        if _BLOB.search(text) and not all(blob in before for blob in _BLOB.findall(text)):
            yield f"{name} holds an encoded blob"
        items, had = _largest(name, text), _largest(name, _text(base.get(name, b"")))
        if items > max(TABLE_ITEMS, had + TABLE_ITEMS // 2):
            yield f"{name} holds a literal table of {items} items"


def _carries(string: str, forbidden: Forbidden, known: str) -> bool:
    """Whether a string new to the base stands in a forbidden text, or the other way round."""
    if len(string) < LONG:
        return False
    return any(
        (text in string and text not in known) or (string in text and string not in known)
        for text in forbidden.texts
    )


def even(text: str) -> str:
    """Lower case, runs of space as one."""
    return " ".join(text.lower().split())


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _words(text: str) -> list[str]:
    return re.findall(r"[\w.-]+", text)


def _strings(name: str, text: str) -> Iterator[str]:
    """The file as a whole and each of its lines; in Python also each string constant, joined."""
    yield even(text)
    yield from (even(line) for line in text.splitlines())
    if not name.endswith(".py"):
        return
    todo: list[ast.AST] = [parsed(text)]
    while todo:
        node = todo.pop()
        joined = _joined(node)
        if joined:
            yield even(joined)
        todo += _terms(node) or ast.iter_child_nodes(node)


def _joined(node: ast.AST) -> str:
    """The text of a string constant, or of those in a sum or a list; '' for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return "".join(_joined(each) for each in node.elts)
    return "".join(_joined(each) for each in _terms(node))


def _terms(node: ast.AST) -> list[ast.AST]:
    """What a sum adds up, in order and without sums among it (a sum may be thousands deep);
    nothing for anything else."""
    terms: list[ast.AST] = []
    todo = [node] if _is_sum(node) else []
    while todo:
        term = todo.pop()
        if isinstance(term, ast.BinOp) and _is_sum(term):
            todo += [term.left, term.right]
        else:
            terms.append(term)
    return terms[::-1]


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def _largest(name: str, text: str) -> int:
    """The constants in the largest literal of a file; for data files, their items or lines."""
    if name.endswith(".py"):
        sizes = (_size(node) for node in ast.walk(parsed(text)))
        return max(sizes, default=0)
    if name.endswith(".json"):
        try:
            value = json.loads(text or "[]")
        except (ValueError, RecursionError):
            return text.count("\n")
        return len(value) if isinstance(value, list | dict) else 1
    return 0 if name.endswith(".md") else text.count("\n")


def _size(node: ast.AST) -> int:
    if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
        return sum(isinstance(each, ast.Constant) for each in ast.walk(node))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.count("\n") + node.value.count(";")
    return 0


def parsed(source: str | bytes) -> ast.Module:
    """The syntax tree, an empty one for what can't be parsed: no Python, or nested too deep."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
