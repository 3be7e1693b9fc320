"""Whether two splits hold the same problem: by id, by content with case and signs evened out, by
group. What ``splits.freeze`` refuses and ``data_check`` reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.domains import Task
from engine.errors import DataError

KINDS = ("id", "content", "group")

# Letters and digits in runs, a minus where it makes a number negative, and the signs that carry
# meaning (+ % < = ...): only what punctuates a sentence is dropped.
_TOKEN = re.compile(r"(?:(?<!\w)-(?=\d))?[^\W_]+|[^\w\s.,;:!?'\"`´‘’“”()\[\]{}…–—-]")


@dataclass(frozen=True)
class Overlap:
    """One id, content or group in two splits; ``first`` and ``second`` are the tasks' ids."""

    kind: str
    splits: tuple[str, str]
    first: str
    second: str


def even(text: str) -> str:
    """The text without case, spacing and the punctuation of sentences; digits stay as they are."""
    return " ".join(_TOKEN.findall(text.casefold()))


def mark(task: Task, kind: str) -> str:
    """What tasks may not share over two splits; '' where this task has nothing of the kind."""
    content = even(task.content) or task.content
    return {"id": task.id, "content": content, "group": task.group}[kind]


def overlaps(parts: Mapping[str, Sequence[Task]]) -> list[Overlap]:
    """One for each task whose mark stood in an earlier split."""
    found: list[Overlap] = []
    for kind in KINDS:
        owner: dict[str, tuple[str, str]] = {}
        for name, tasks in parts.items():
            for task in tasks:
                own = mark(task, kind)
                split, first = owner.setdefault(own, (name, task.id)) if own else (name, "")
                if split != name:
                    found.append(Overlap(kind, (split, name), first, task.id))
    return found


def repeats(tasks: Sequence[Task], kind: str) -> int:
    """How many tasks of one split repeat the mark of another in it."""
    marks = Counter(own for task in tasks if (own := mark(task, kind)))
    return marks.total() - len(marks)


def require_disjoint(parts: Mapping[str, Sequence[Task]]) -> None:
    """Raises DataError where two splits share an id, a content or a group, where an id stands
    twice, or where a task has no content to tell it by."""
    for name, tasks in parts.items():
        blank = next((task for task in tasks if not task.content.strip()), None)
        if blank is not None:
            raise DataError(
                f"task {blank.id} in {name}: content is blank; it must say what makes two tasks "
                "the same problem"
            )
        twice = [task for task, count in Counter(task.id for task in tasks).items() if count > 1]
        if twice:
            raise DataError(f"task {twice[0]}: its id stands twice in {name}; ids must be unique")
    found = overlaps(parts)
    if found:
        first = found[0]
        raise DataError(
            f"task {first.second} in {first.splits[1]}: its {first.kind} stands in "
            f"{first.splits[0]} too (task {first.first}), as one of {len(found)} such overlaps; "
            "splits must be disjoint: mend the data or the domain's load, "
            "`coevo data check` counts them all"
        )
