"""The one module that spells and parses ref names and the paths of the state tree.

A run named ``R`` owns ``refs/heads/R/`` (what people see) and ``refs/coevo/R/`` (state, rejected
offspring, test results, evaluations, audits). Everything archived has a ``Name``; ``r003-k2`` is
its label.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.errors import ArchiveError

BRANCH_KINDS = ("harness", "checkpoint", "pair")
NUMBERED_KINDS = ("test", "evaluation", "audit")
"""Kept apart from every round, and numbered as they come."""
HIDDEN_KINDS = ("rejected", *NUMBERED_KINDS)
KINDS = (*BRANCH_KINDS, *HIDDEN_KINDS, "round")
NOTES = "refs/notes/coevo"

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SLOT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LABEL = re.compile(r"r(0\d\d|[1-9]\d{2,})-([a-z0-9]+(?:-[a-z0-9]+)*)")
_ROUND = re.compile(r"r(0\d\d|[1-9]\d{2,})")
_NUMBER = re.compile(r"0|[1-9]\d*")


@dataclass(frozen=True)
class Name:
    """What an archived commit is called. ``round`` is the ordinal of a numbered kind."""

    kind: str
    round: int
    slot: str = ""

    @property
    def label(self) -> str:
        """``r003-k2``, ``r003`` for a round, ``7`` for a test, an evaluation or an audit."""
        if self.kind in NUMBERED_KINDS:
            return str(self.round)
        return f"r{self.round:03d}-{self.slot}" if self.slot else f"r{self.round:03d}"

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts by round, then by slot with numbers as numbers (k2 before k10)."""
        parts = re.split(r"(\d+)", self.slot)
        return (self.round, *((p.isdigit(), int(p) if p.isdigit() else p) for p in parts if p))


def check_run(run: str) -> str:
    """The run's name itself, or ArchiveError: it becomes one path component of every ref."""
    if not _RUN.fullmatch(run) or run.endswith((".", ".lock")) or ".." in run:
        raise ArchiveError(
            f"run name {run!r} can't be part of a branch name: use letters, digits, '-', '_', '.' "
            "(params.yaml: run)"
        )
    return run


def named(kind: str, round_: int, slot: str) -> Name:
    """A checked Name. Raises ArchiveError for a negative round or a slot that no ref can hold."""
    if round_ < 0 or not _SLOT.fullmatch(slot):
        raise ArchiveError(
            f"{kind} name r{round_}-{slot} is malformed: rounds are 0 or more, slots are "
            "lower-case letters and digits joined by '-'"
        )
    return Name(kind, round_, slot)


def labelled(kind: str, label: str) -> Name:
    """The Name of ``r003-sft``. Raises ArchiveError when it isn't a label."""
    found = _LABEL.fullmatch(label)
    if not found:
        raise ArchiveError(f"{kind} name {label!r} is malformed: it looks like r003-k2")
    return Name(kind, int(found[1]), found[2])


def state(run: str) -> str:
    return f"refs/coevo/{run}/state"


def evolution(run: str) -> str:
    return f"refs/heads/{run}/evolution"


def publications(run: str) -> str:
    """Notes beside pair commits: where the Hub has them."""
    return f"refs/notes/coevo-hub/{run}"


def branches(run: str) -> str:
    """The prefix of everything people see of a run."""
    return f"refs/heads/{run}/"


def hidden(run: str) -> str:
    """The prefix of what only the engine and the curious see."""
    return f"refs/coevo/{run}/"


def full(run: str, name: Name) -> str:
    """The ref that keeps ``name``; rounds share the evolution branch."""
    if name.kind == "round":
        return evolution(run)
    prefix = hidden(run) if name.kind in HIDDEN_KINDS else branches(run)
    return f"{prefix}{name.kind}/{name.label}"


def short(ref: str) -> str:
    """As git shows it: ``R/harness/r003-k2``; hidden refs stay in full."""
    return ref.removeprefix("refs/heads/")


def parse(run: str, ref: str) -> Name | None:
    """The Name that ``ref`` keeps; None for any other ref, the evolution branch and the state."""
    for prefix, kinds in ((branches(run), BRANCH_KINDS), (hidden(run), HIDDEN_KINDS)):
        if ref.startswith(prefix):
            kind, _, label = ref.removeprefix(prefix).partition("/")
            return parse_label(kind, label) if kind in kinds else None
    return None


def parse_label(kind: str, label: str) -> Name | None:
    """The Name of a label of that kind, None when it isn't one."""
    if kind in NUMBERED_KINDS:
        return Name(kind, int(label)) if _NUMBER.fullmatch(label) else None
    if kind == "round":
        found = _ROUND.fullmatch(label)
        return Name(kind, int(found[1])) if found else None
    found = _LABEL.fullmatch(label)
    return Name(kind, int(found[1]), found[2]) if found else None


# --- the state tree: a folder a round, a hundred rounds a folder above it -----------------------


def state_path(name: Name) -> tuple[str, ...]:
    """Where the state tree keeps ``name``: ``00xx/r003/harness-k2``, ``test/7``."""
    if name.kind in NUMBERED_KINDS:
        return (name.kind, name.label)
    entry = f"{name.kind}-{name.slot}" if name.slot else name.kind
    return (*round_folder(name.round), entry)


def round_folder(round_: int) -> tuple[str, str]:
    return (f"{round_ // 100:02d}xx", f"r{round_:03d}")


def parse_state_entry(round_: int, entry: str) -> Name:
    kind, _, slot = entry.partition("-")
    return Name(kind, round_, slot)
