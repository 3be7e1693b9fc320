"""Whether an offspring carries answers: task ids, validation text, literal tables, blobs.

Only what is new against the base is looked at. String constants are read from the syntax tree,
with adjacent and added pieces joined, and all files as text with spaces evened out.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.domains import Domain, Task

LONG = 32
"""Characters from which a string shared with a validation task is no accident."""
_WORD = r"[\w.-]"
_COMMON = re.compile(r".{0,3}|\d{0,6}")  # ids that any code may hold by chance
TABLE_ITEMS = 80
BLOB_CHARS = 120
_BLOB = re.compile(rf"[A-Za-z0-9+/=_\\-]{{{BLOB_CHARS},}}")


@dataclass(frozen=True)
class Forbidden:
    """What no harness may hold of the frozen splits: ids of any task, and the instructions and
    reference answers of validation, but for what stands in ``taught``, which is the training
    tasks' wording."""

    ids: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    taught: str = ""

    @classmethod
    def of(cls, ids: Sequence[str], texts: Sequence[str]) -> Forbidden:
        """Ids too short to be told from words and numbers, and texts too short to be no accident,
        are left out."""
        long = (even(text) for text in texts)
        distinct = frozenset(each for each in ids if not _COMMON.fullmatch(each))
        return cls(distinct, tuple(dict.fromkeys(text for text in long if len(text) >= LONG)))

    @classmethod
    def of_tasks(
        cls, domain: Domain, train: Sequence[Task], validation: Sequence[Task]
    ) -> Forbidden:
        """The ids of both splits, and what validation asks, shows and answers, in any domain."""
        ids = [task.id for task in (*train, *validation)]
        found = cls.of(ids, _all_texts(domain, validation))
        taught = "\n".join(even(text) for text in _all_texts(domain, train))
        return replace(found, taught=taught)


def _all_texts(domain: Domain, tasks: Sequence[Task]) -> list[str]:
    return [
        text
        for task in tasks
        for text in (task.instruction, *references(domain, task), *task.content.splitlines())
    ]


def references(domain: Domain, task: Task) -> Iterator[str]:
    """The texts of a task's reference answer, however deep: what ``Domain.practice``, which is the
    task's world without it, leaves out. Lists and objects come as JSON too, so that one made of
    short pieces is found."""
    world = domain.practice(task, task.instruction).private
    for key, value in task.private.items():
        if key not in world or world[key] != value:
            yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        yield json.dumps(value, ensure_ascii=False, default=str)
        inner: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
        for each in inner:
            yield from _texts(each)


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
        found = _ids(text, before, known_words, forbidden.ids)
        if found:
            yield f"{name} holds {len(found)} task id(s)"
        if any(_carries(each, forbidden, known) for each in _strings(name, text)):
            yield f"{name} holds text of a validation task"
        if _BLOB.search(text) and not all(blob in before for blob in _BLOB.findall(text)):
            yield f"{name} holds an encoded blob"
        items, had = _largest(name, text), _largest(name, _text(base.get(name, b"")))
        if items > max(TABLE_ITEMS, had + TABLE_ITEMS // 2):
            yield f"{name} holds a literal table of {items} items"


def _ids(text: str, before: str, known_words: set[str], ids: frozenset[str]) -> set[str]:
    """The ids new in a text; those that are no one word (``folder/12``) are looked for as they
    stand."""
    found = (set(_words(text)) - known_words) & ids
    for each in ids:
        if not re.fullmatch(f"{_WORD}+", each) and each in text:
            whole = re.compile(rf"(?<!{_WORD}){re.escape(each)}(?!{_WORD})")
            if whole.search(text) and not whole.search(before):
                found.add(each)
    return found


def _carries(string: str, forbidden: Forbidden, known: str) -> bool:
    """Whether a string new to the base stands in a forbidden text, or the other way round."""
    if len(string) < LONG or string in known:
        return False
    pieces = (
        text if text in string else string
        for text in forbidden.texts
        if text in string or string in text
    )
    return any(piece not in known and piece not in forbidden.taught for piece in pieces)


def even(text: str) -> str:
    """Lower case, runs of space as one."""
    return " ".join(text.lower().split())


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _words(text: str) -> list[str]:
    return re.findall(f"{_WORD}+", text)


def _strings(name: str, text: str) -> Iterator[str]:
    """The file as a whole and each of its lines; in Python also each string constant, joined, and
    in JSON each string without its escapes."""
    yield even(text)
    yield from (even(line) for line in text.splitlines())
    if name.endswith(".json"):
        yield from map(even, _json_strings(text))
    if not name.endswith(".py"):
        return
    todo: list[ast.AST] = [parsed(text)]
    while todo:
        node = todo.pop()
        joined = _joined(node)
        if joined:
            yield even(joined)
        todo += _terms(node) or ast.iter_child_nodes(node)


def _json_strings(text: str) -> Iterator[str]:
    try:
        value = json.loads(text or "null")
    except (ValueError, RecursionError):
        return
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            todo += [*each.keys(), *each.values()]
        elif isinstance(each, list):
            todo += each


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
