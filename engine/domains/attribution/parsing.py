"""Reading one labelled log of Who&When or TracerTraj.

Who&When's Hand-Crafted steps have ``role`` alone, whose parenthesised part (``Orchestrator
(thought)``) is no part of the name; its Algorithm-Generated steps, as TracerTraj's, have ``name``,
and their ``role`` says nothing. Steps are numbered from 0 where they bear no ``step``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.domains.attribution.trace import Step, Trace, plain
from engine.domains.reading import fault, integer, mapping, sequence, text_field
from engine.errors import DataError

REFERENCE = ("ground_truth", "groundtruth")
"""The key of the question's answer, in the repository and in the hub's copy of Who&When."""

_TELLTALE = "_attacked_solution"
"""Part of file names in logs whose error was injected; no log of a real failure has it."""


def parse(row: Mapping[str, Any], where: str, key: str, source: str) -> Trace:
    """A row as the trace ``key`` of ``source``. Raises DataError naming ``where`` and the field."""
    if not any(name in row for name in REFERENCE):
        raise DataError(f"{where}: ground_truth: expected this key (or groundtruth), found neither")
    steps = _steps(sequence(row.get("history"), "history", where), where)
    trace = Trace(
        id=key,
        source=source,
        question=text_field(row, "question", where),
        steps=steps,
        mistake_agent=_one_agent(row, where),
        mistake_step=integer(_only(row.get("mistake_step")), "mistake_step", where),
    )
    numbers = [step.number for step in steps]
    if trace.mistake_step not in numbers:
        expected = f"one of the {len(steps)} steps of history ({min(numbers)} to {max(numbers)})"
        raise fault(where, "mistake_step", expected, row["mistake_step"])
    return trace


def _only(value: Any) -> Any:
    """The member of a list of one; everything else as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _one_agent(row: Mapping[str, Any], where: str) -> str:
    return text_field({"mistake_agent": _only(row.get("mistake_agent"))}, "mistake_agent", where)


def _steps(history: Sequence[Any], where: str) -> tuple[Step, ...]:
    if not history:
        raise fault(where, "history", "at least one step", history)
    steps = []
    for place, value in enumerate(history):
        field = f"history[{place}]"
        each = mapping(value, field, where)
        content = each.get("content")
        if not isinstance(content, str):
            raise fault(where, f"{field}.content", "text", content)
        number = integer(each.get("step", place), f"{field}.step", where)
        steps.append(
            Step(number, _agent(each, where, field), content.replace(_TELLTALE, "_solution"))
        )
    if len({step.number for step in steps}) < len(steps):
        numbers = [step.number for step in steps]
        raise fault(where, "history", "a step number of its own for every step", numbers)
    return tuple(steps)


def _agent(step: Mapping[str, Any], where: str, field: str) -> str:
    key = "name" if step.get("name") not in (None, "") else "role"
    return plain(text_field(step, key, where, f"{field}."))
