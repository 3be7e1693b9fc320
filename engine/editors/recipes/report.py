"""evolution_report.md and evolve_notes.md of an offspring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.archive.drafts import Adoption
from engine.brief import Brief
from engine.editors import NOTES, REPORT
from engine.editors.recipes.apply import Change
from engine.editors.recipes.catalogue import RECIPES

_SUBJECT_CHARS = 72
_NOTES_LINES = 200


def written(
    files: Mapping[str, bytes],
    brief: Brief,
    base: str,
    changes: Sequence[Change],
    adopts: Sequence[Adoption],
    added: int,
    repaired: str = "",
) -> dict[str, bytes]:
    """The workspace with its report, and its notes carried on by one entry."""
    body = _report(brief, base, changes, adopts, added, repaired)
    old = files.get(NOTES, b"# Notes\n").decode("utf-8", "replace").splitlines()
    entry = [f"- {subject(changes)} (base {base[:12]}): {brief.hypothesis}"]
    notes = "\n".join([*old, *entry][-_NOTES_LINES:]) + "\n"
    return {**files, REPORT: body.encode(), NOTES: notes.encode()}


def subject(changes: Sequence[Change]) -> str:
    """One line: what was added, adopted and varied."""
    parts = []
    for action, word in (("added", "Add"), ("adopted", "Adopt"), ("varied", "Vary")):
        names = [change.mechanism for change in changes if change.action == action]
        if names:
            parts.append(f"{word} {', '.join(names)}")
    line = "; ".join(parts) or "Change nothing"
    return line if len(line) <= _SUBJECT_CHARS else f"{line[: _SUBJECT_CHARS - 3]}..."


def _report(
    brief: Brief,
    base: str,
    changes: Sequence[Change],
    adopts: Sequence[Adoption],
    added: int,
    repaired: str,
) -> str:
    source = {adoption.mechanism: adoption.oid[:12] for adoption in adopts}
    lines = [f"# {subject(changes)}", "", "## Hypothesis", brief.hypothesis, "", "## Base", base]
    lines += ["", "## Mechanisms"]
    for change in changes:
        taken = f" from {source[change.mechanism]}" if change.mechanism in source else ""
        settings = ", ".join(f"{key} = {_short(value)}" for key, value in change.values.items())
        what = RECIPES[change.mechanism].summary if change.mechanism in RECIPES else "as found"
        lines.append(
            f"- {change.mechanism} ({change.action}{taken}): {what}"
            + (f"; {settings}" if settings else "")
        )
    paths = sorted({path for change in changes for path in change.files})
    lines += ["", "## Changed files", *[f"- {path}" for path in paths]]
    lines += ["", "## Expected effect", *_each(changes, "effect")]
    lines += ["", "## Validation", f"Parsed after each edit; {added} added lines against the base."]
    lines += [f"Repaired after: {repaired}"] if repaired else []
    lines += ["", "## Assumptions", "The failures of the incumbent are those of the base too."]
    lines += ["", "## Risks", *_each(changes, "risk")]
    return "\n".join(lines) + "\n"


def _each(changes: Sequence[Change], field: str) -> list[str]:
    known = [change.mechanism for change in changes if change.mechanism in RECIPES]
    return [f"- {name}: {getattr(RECIPES[name], field)}" for name in known]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
