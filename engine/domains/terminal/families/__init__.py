"""The families of terminal tasks, in a fixed order. A new one is a module here and a line below."""

from __future__ import annotations

from collections.abc import Mapping

from engine.domains.terminal.families import (
    documents,
    events,
    files,
    forensics,
    haystack,
    repair,
    schedule,
    service,
)
from engine.domains.terminal.problem import Family

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        files.FAMILY,
        repair.FAMILY,
        documents.FAMILY,
        haystack.FAMILY,
        service.FAMILY,
        events.FAMILY,
        schedule.FAMILY,
        forensics.FAMILY,
    )
}
"""Name -> family; those for evolution and those kept out of it (``Family.ood``)."""


def evolved() -> list[Family]:
    """The families that evolution may see."""
    return [family for family in FAMILIES.values() if not family.ood]


def unseen() -> list[Family]:
    """Those kept out of it."""
    return [family for family in FAMILIES.values() if family.ood]
