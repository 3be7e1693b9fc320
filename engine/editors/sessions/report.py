"""What a session has to have written beside its code: HARNESS DIAGNOSIS in the notes, and a report
with all its parts (paper, Prompt A)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from engine.editors import NOTES, REPORT
from kernel import workspace

DIAGNOSIS = "HARNESS DIAGNOSIS"

PARTS: Mapping[str, str] = {
    "base": r"\bbase\b",
    "changed files": r"\bchanged\b.{0,20}\bfiles?\b|\bfiles?\b.{0,20}\bchanged\b",
    "mechanism": r"\bmechanisms?\b",
    "expected effect": r"\beffects?\b|\bexpect",
    "checks that were run": r"\bchecks?\b|\bvalidat",
    "assumptions": r"\bassum",
    "risks": r"\brisks?\b",
}


def problems(files: Mapping[str, bytes], base: Mapping[str, bytes]) -> Iterator[str]:
    """Parts that are missing, and changed files that the report doesn't name."""
    notes, report = _new(files, base, NOTES), _new(files, base, REPORT)
    if DIAGNOSIS.lower() not in notes.lower():
        yield f"diagnosis: {NOTES} has no {DIAGNOSIS} of this change"
    if not report.strip():
        yield f"report: {REPORT} is missing, or is the base's own"
        return
    lacking = [part for part, sign in PARTS.items() if not re.search(sign, report, re.IGNORECASE)]
    if lacking:
        yield f"report: {REPORT} doesn't speak of {', '.join(lacking)}"
    unnamed = [name for name in changed(files, base) if name not in report]
    if unnamed:
        yield f"report: {REPORT} doesn't name the changed files {', '.join(unnamed[:8])}"


def changed(files: Mapping[str, bytes], base: Mapping[str, bytes]) -> list[str]:
    """Code files that are new, other or gone."""
    now, before = workspace.code(files), workspace.code(base)
    return sorted(n for n in now.keys() | before.keys() if now.get(n) != before.get(n))


def _new(files: Mapping[str, bytes], base: Mapping[str, bytes], name: str) -> str:
    """The text of a file where it isn't the base's own."""
    content = files.get(name, b"")
    return "" if content == base.get(name) else content.decode("utf-8", "replace")
