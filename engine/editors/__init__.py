"""Editors turn a brief into an offspring (paper eq. 9-10): pick a base, develop a copy, report."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from engine.archive.drafts import Adoption
from engine.brief import Brief, Evidence
from engine.seams import find
from engine.view import ArchiveView

EDITORS = {"recipes": "engine.editors.recipes.editor:EDITOR"}

NOTES = "evolve_notes.md"
REPORT = "evolution_report.md"


@dataclass(frozen=True)
class Edit:
    """What an editor left: the whole workspace, notes and report in it, and where it came from.

    ``mechanisms`` are those that this edit brought in or changed, in order.
    """

    files: Mapping[str, bytes]
    base: str
    subject: str
    editor: str
    adopts: tuple[Adoption, ...] = ()
    mechanisms: tuple[str, ...] = ()


class Editor(Protocol):
    """An editor sees the archive as it was when the round began, and writes nothing but what it
    returns. Raises ValueError where no harness can serve as a base."""

    def edit(
        self,
        brief: Brief,
        evidence: Evidence,
        view: ArchiveView,
        rng: random.Random,
        line_budget: int | None,
    ) -> Edit: ...

    def repair(
        self,
        edit: Edit,
        reasons: Sequence[str],
        brief: Brief,
        view: ArchiveView,
        rng: random.Random,
        line_budget: int | None,
    ) -> Edit:
        """Another try after the checks gave ``reasons``; the same edit where nothing is left."""
        ...


def editor(name: str) -> Editor:
    """The editor called ``name``. Raises ConfigError for an unknown name."""
    return cast(Editor, find("editors.kind", name, EDITORS))


def mechanisms(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The mechanisms a workspace holds, for an index of the archive."""
    from engine.editors.recipes.apply import present

    return present(files)
