"""Editors turn a brief into an offspring (paper eq. 9-10): pick a base, develop a copy, report."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from engine.archive.drafts import Adoption
from engine.brief import Brief, Evidence
from engine.records import Cost
from engine.seams import find
from engine.view import ArchiveView

if TYPE_CHECKING:
    from engine.context import Context

EDITORS = {
    "recipes": "engine.editors.recipes.editor:EDITOR",
    "codex": "engine.editors.sessions.editor:CODEX",
    "command": "engine.editors.sessions.editor:COMMAND",
    "chat": "engine.editors.sessions.editor:CHAT",
}

NOTES = "evolve_notes.md"
REPORT = "evolution_report.md"


@dataclass(frozen=True)
class Edit:
    """What an editor left: the whole workspace, notes and report in it, and where it came from.

    ``mechanisms`` are those that this edit brought in or changed, in order. ``refused`` says why it
    is no offspring whatever its files are; ``final`` that no repair is worth a try. ``remarks`` are
    for the record; ``transcript`` is the .dvc text of what the editor said and did.
    """

    files: Mapping[str, bytes]
    base: str
    subject: str
    editor: str
    adopts: tuple[Adoption, ...] = ()
    mechanisms: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    final: bool = False
    remarks: tuple[str, ...] = ()
    transcript: str = ""
    cost: Cost = field(default_factory=Cost)


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


class Workshop(Protocol):
    """The editors of one round at work, each with its own brief. ``parallel`` of them may be asked
    at once. Raises CoevoError where the cause is nothing that a harness could be blamed for."""

    parallel: int

    async def edit(self, brief: Brief) -> Edit: ...

    async def repair(self, edit: Edit, reasons: Sequence[str], brief: Brief) -> Edit:
        """As ``Editor.repair``."""
        ...


@runtime_checkable
class Sessions(Protocol):
    """A kind of editor that runs in sessions of its own, side by side."""

    def workshop(
        self, context: Context, evidence: Evidence, view: ArchiveView
    ) -> AbstractAsyncContextManager[Workshop]:
        """Open for one round. What had finished before the round broke off isn't done again.
        Raises CoevoError where no session could run."""
        ...


def editor(name: str) -> Editor | Sessions:
    """The editor called ``name``. Raises ConfigError for an unknown name."""
    return cast("Editor | Sessions", find("editors.kind", name, EDITORS))


def mechanisms(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The mechanisms a workspace holds, for an index of the archive."""
    from engine.editors.recipes.apply import present

    return present(files)
