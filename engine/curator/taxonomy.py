"""Failure classes that a language model proposes, checked against the failures there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.diagnosis import (
    ADDRESSABLE,
    EXTERNAL,
    FEWEST,
    MODEL_LIMITED,
    MOST,
    Failure,
    FailureClass,
    Feedback,
)
from engine.llm.dialogue import SentBack, tool

_NAME_CHARS = 120
_TOLD = 8

CLASSIFY = tool(
    "classify",
    f"The failure taxonomy: {FEWEST} to {MOST} classes. Each names the ids of all failed tasks in "
    "it, from the list, and their count; a task is in one class at most.",
    {
        "classes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 1, "maxLength": _NAME_CHARS},
                    "kind": {"enum": [ADDRESSABLE, MODEL_LIMITED, EXTERNAL]},
                    "count": {"type": "integer"},
                    "ids": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                },
                "required": ["name", "kind", "count", "ids"],
                "additionalProperties": False,
            },
        }
    },
)


def classes(arguments: Mapping[str, Any], feedback: Feedback) -> tuple[FailureClass, ...]:
    """The classes, the most frequent first. Raises SentBack with all that is wrong with them."""
    proposed = arguments["classes"]
    failures = {each.id: each for each in feedback.failures}
    wrong = list(_problems(proposed, failures, set(feedback.controls)))
    if wrong:
        more = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
        raise SentBack("; ".join(wrong[:_TOLD]) + more)
    made = [_class(each, [failures[id] for id in sorted(set(each["ids"]))]) for each in proposed]
    return tuple(sorted(made, key=lambda each: (-each.count, each.name)))


def _problems(
    proposed: Sequence[Mapping[str, Any]], failures: Mapping[str, Failure], right: set[str]
) -> Iterator[str]:
    fewest = min(FEWEST, len(failures))
    if not fewest <= len(proposed) <= MOST:
        yield f"{len(proposed)} classes; give {fewest} to {MOST}"
    names = Counter(_line(each["name"]).casefold() for each in proposed)
    yield from (f"two classes are called {name!r}" for name, n in names.items() if n > 1)
    homes: dict[str, str] = {}
    for each in proposed:
        name, ids = _line(each["name"]), each["ids"]
        if not name:
            yield "a class has no name"
        if each["count"] != len(set(ids)):
            yield f"{name}: count {each['count']}, but it names {len(set(ids))} different ids"
        for id in dict.fromkeys(ids):
            if id in right:
                yield f"{name}: {id} was answered right"
            elif id not in failures:
                yield f"{name}: {id[:40]!r} is the id of no failed task"
            elif id in homes:
                yield f"{id} is in {homes[id]} and in {name}"
            homes.setdefault(id, name)


def _class(proposed: Mapping[str, Any], members: Sequence[Failure]) -> FailureClass:
    causes = Counter(each.cause for each in members)
    return FailureClass(
        name=_line(proposed["name"]),
        cause=min(causes, key=lambda name: (-causes[name], name)),
        kind=proposed["kind"],
        count=len(members),
        grounded=sum(each.grounded for each in members),
        samples=tuple(each.id for each in members),
    )


def listed(failures: Sequence[Failure], room: int) -> str:
    """All failed tasks, alike ones on one line, in at most ``room`` bytes; the largest groups
    first."""
    groups: dict[str, list[str]] = {}
    for each in failures:
        groups.setdefault(_traits(each), []).append(each.id)
    kept: list[str] = []
    used = shown = 0
    note = "... {} more failed tasks are left out here; class those that are shown"
    for traits, ids in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        text = f"- {traits}: {len(ids)}: {' '.join(ids)}"
        used += len(text.encode()) + 1
        if used + len(note) > room:
            break
        kept.append(text)
        shown += len(ids)
    left = len(failures) - shown
    return "\n".join([*kept, *([note.format(left)] if left else [])])


def _traits(failure: Failure) -> str:
    looked = "looked something up" if failure.grounded else "looked nothing up"
    broke = ", ".join(sorted(set(failure.violations)))
    strata = ", ".join(f"{key} {value}" for key, value in sorted(failure.strata.items()))
    parts = (failure.cause, f"ended {failure.end}", looked, broke and f"violations {broke}", strata)
    return "; ".join(" ".join(part.split()) for part in parts if part)


def _line(text: str) -> str:
    return " ".join(text.split())
