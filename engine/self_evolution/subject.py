"""The first line of an offspring's commit: what the proposer itself wrote into its notes."""

from __future__ import annotations

import difflib

from engine.checks import CheckResult
from engine.self_evolution import places
from engine.self_evolution.extraction import Files
from kernel import workspace

_LONGEST = 72


def subject(base: Files, files: Files, result: CheckResult) -> str:
    """The first line that is new in the notes, headings and list marks apart; else which files
    changed and by how much. A rejected one says so."""
    line = _new_note(base, files) or _changed(base, files, result.added)
    said = line if result.ok else f"Refused: {line}"
    return said if len(said) <= _LONGEST else said[: _LONGEST - 3] + "..."


def _new_note(base: Files, files: Files) -> str:
    old, new = (
        each.get(places.NOTES, b"").decode("utf-8", "replace").splitlines()
        for each in (base, files)
    )
    added = [line[2:] for line in difflib.ndiff(old, new) if line.startswith("+ ")]
    for line in added:
        words = "".join(c if c.isprintable() else " " for c in line.lstrip("-* \t")).split()
        if words and not line.lstrip().startswith("#"):
            return " ".join(words)
    return ""


def _changed(base: Files, files: Files, added: int) -> str:
    before, after = workspace.code(base), workspace.code(files)
    names = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    if not names:
        return "Change nothing but notes"
    shown = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    return f"Edit {shown} (+{added} lines)"
