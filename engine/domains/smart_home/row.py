"""One labelled instruction in HomeBench's format, and the task it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.domains import Task
from engine.domains.reading import fault, integer, text_field
from engine.domains.smart_home.homes import Home
from engine.domains.smart_home.scoring import operations

SUBSETS = ("VS", "IS", "VM", "IM", "MM")
"""Valid single, invalid single, valid multi, invalid multi, mixed multi."""

_SINGLE = {"normal": "VS", "unexist_device": "IS", "unexist_attribute": "IS"}
_MULTI = re.compile(r"multi\d+_(normal|mix|unexist_\w+)")


@dataclass(frozen=True)
class Row:
    """One line of a HomeBench file; ``type`` is the data set's own name of the kind."""

    id: str
    instruction: str
    gold: str
    home_id: int
    type: str

    @property
    def subset(self) -> str:
        return subset(self.type) or ""

    @property
    def content(self) -> str:
        """What makes two rows the same problem: the home, and the instruction normalised."""
        return f"{self.home_id}|{normalised(self.instruction)}"


def subset(type_name: str) -> str | None:
    """The subset that a ``type`` belongs to, None for a type that the format doesn't have."""
    if type_name in _SINGLE:
        return _SINGLE[type_name]
    multi = _MULTI.fullmatch(type_name)
    if not multi:
        return None
    return {"normal": "VM", "mix": "MM"}.get(multi[1], "IM")


def normalised(instruction: str) -> str:
    """An instruction without case, punctuation and spacing."""
    return " ".join(re.findall(r"[a-z0-9%]+", instruction.lower()))


def parse_row(row: Mapping[str, Any], where: str) -> Row:
    """A line of a labelled file. Raises DataError naming ``where`` and the field."""
    parsed = Row(
        id=text_field(row, "id", where),
        instruction=text_field(row, "input", where),
        gold=text_field(row, "output", where),
        home_id=integer(row.get("home_id"), "home_id", where),
        type=text_field(row, "type", where),
    )
    if not parsed.subset:
        raise fault(where, "type", "normal, unexist_* or multiN_normal|mix|unexist_*", parsed.type)
    if not operations(parsed.gold, gold=True):
        raise fault(where, "output", "at least one operation", parsed.gold)
    return parsed


def make_task(row: Row, home: Home, home_row: Mapping[str, Any]) -> Task:
    """The task of a row. ``home_row`` is the home as its file has it: the world is made of it."""
    return Task(
        id=row.id,
        instruction=row.instruction,
        public={"home": home.index()},
        private={"gold": row.gold, "type": row.subset, "home": home_row},
        content=f"{home.fingerprint}|{normalised(row.instruction)}",
        strata={"subset": row.subset, "operations": _size(row.gold)},
    )


def _size(gold: str) -> str:
    n = len(operations(gold, gold=True))
    if n <= 2:
        return str(n)
    return "3-5" if n <= 5 else "6-10"
