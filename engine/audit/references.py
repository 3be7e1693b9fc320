"""Content that came back to an agent and equals the task's reference, record by record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.audit.actions import Action
from engine.audit.rules import Finding, fetches
from engine.domains import Domain, Task

_LONG = 80
_LINE = 12
_LEAST, _SHARE = 3, 0.6


def references(domain: Domain, task: Task) -> list[str]:
    """The texts that give a task away: what the domain names (``references(task)``), else every
    long text among the task's labels."""
    own = getattr(domain, "references", None)
    return list(own(task)) if own is not None else list(_texts(task.private))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _LONG:
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)


def findings(
    actions: Sequence[Action], wanted: Sequence[str], instruction: str
) -> Iterator[Finding]:
    """Outputs that hold three fifths of a reference's lines (three at least), lines left out that
    the task itself gives or the agent had written before. No line of a reference is quoted."""
    known = set(_lines(instruction))
    sets = [lines for text in wanted if (lines := set(_lines(text)))]
    for action in actions:
        known |= set(_lines(action.text))
        seen = set(_lines(action.output))
        for lines in sets:
            new = lines - known
            if len(new) >= _LEAST and len(new & seen) >= max(_LEAST, _SHARE * len(new)):
                how = "content from the network" if fetches(action) else "what it read"
                share = len(new & seen) / len(new)
                yield Finding("reference", action.turn, f"{how} holds {share:.0%} of a reference")
                break


def _lines(text: str) -> list[str]:
    """The lines that say something, without a diff's marks and white space."""
    stripped = ("".join(re.sub(r"^[+-]", "", line).split()) for line in text.splitlines())
    return [line for line in stripped if len(line) >= _LINE]
