"""Whether a session stated its diagnosis before it changed code, as seen from outside while it ran.

Looked at as often as its limits are: what comes between two looks has no order, and what follows
within ``GRACE_S`` is taken for one piece of work.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from engine.editors import NOTES, REPORT
from engine.editors.sessions import declaration
from engine.editors.sessions.report import DIAGNOSIS

GRACE_S = 2.0
_MAX_BYTES = 2**20
_MAX_FILES = 5000
_MAX_DEPTH = 64
_APART = (NOTES, REPORT)


class Order:
    """Seconds from the start to the first look that found code changed (``edited_s``) and a
    diagnosis stated (``diagnosed_s``); None: never found. What the session inherits counts as
    there from the start, and a checkout of another base by git is no change."""

    def __init__(self, work: Path, candidate: Path) -> None:
        self._work, self._candidate = work, candidate
        self._head, self._code = self._text(candidate / ".git" / "HEAD"), self._stats()
        self._notes = self._text(candidate / NOTES)
        self.edited_s: float | None = None
        self.diagnosed_s: float | None = None

    def look(self, seconds: float) -> None:
        if self.edited_s is None:
            head, code = self._text(self._candidate / ".git" / "HEAD"), self._stats()
            if head != self._head:
                self._head, self._code = head, code
            elif code != self._code:
                self.edited_s = seconds
        if self.diagnosed_s is None and self._stated():
            self.diagnosed_s = seconds

    def _stats(self) -> dict[str, tuple[int, int]]:
        """Size and time of each file of the candidate but its notes and report."""
        found: dict[str, tuple[int, int]] = {}
        for parent, folders, names in os.walk(self._candidate):
            folders[:] = [each for each in folders if not each.startswith((".", "__pycache__"))]
            for name in names:
                path = Path(parent, name)
                if name.startswith(".") or str(path.relative_to(self._candidate)) in _APART:
                    continue
                try:
                    facts = path.lstat()
                except OSError:  # it is gone already
                    continue
                found[str(path)] = facts.st_size, facts.st_mtime_ns
            depth = len(Path(parent).relative_to(self._candidate).parts)
            if len(found) > _MAX_FILES or depth > _MAX_DEPTH:
                break
        return found

    def _stated(self) -> bool:
        notes = self._text(self._candidate / NOTES)
        if notes != self._notes and DIAGNOSIS.lower() in notes.lower():
            return True
        try:
            declared = json.loads(self._text(self._work / declaration.FILE))
        except (ValueError, RecursionError):
            return False
        return isinstance(declared, dict) and bool(declared.get("diagnosis"))

    def _text(self, path: Path) -> str:
        """A plain file's text, '' where there is none; the session may put anything there at any
        time."""
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ""
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return ""
            return stream.read(_MAX_BYTES).decode("utf-8", "replace")


def early(edited_s: float | None, diagnosed_s: float | None, seconds: float) -> str:
    """What to remark of a session of so many seconds; '' where it kept the order, or may have."""
    if edited_s is None or (diagnosed_s or seconds) - edited_s <= GRACE_S:
        return ""
    later = "stated none" if diagnosed_s is None else f"stated it after {diagnosed_s:.0f} s"
    return f"it changed code before its diagnosis: after {edited_s:.0f} s, and {later}"
