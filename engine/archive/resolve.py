"""What a person typed into the archived commit they mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.archive import refs
from engine.archive.refs import Name
from engine.archive.state import State
from engine.errors import ArchiveError

_HEX = re.compile(r"[0-9a-f]{4,40}")


class Found(NamedTuple):
    """What a text stands for: ``harness`` (rejected or not), ``checkpoint``, ``pair``, ``round``,
    ``test``, ``evaluation`` or ``audit``, and the commit's full id."""

    kind: str
    oid: str


class Named(NamedTuple):
    """An archived commit under its name."""

    name: Name
    oid: str

    @property
    def found(self) -> Found:
        return Found("harness" if self.name.kind == "rejected" else self.name.kind, self.oid)


def resolve(state: State, text: str, kinds: Sequence[str] = refs.KINDS) -> Named:
    """By hash, prefix (4 digits or more), ref (``R/pair/r003-k2-a``), ``kind/label`` or label.

    ``tip`` and ``evolution`` mean the newest round; a bare label is looked for among ``kinds``.
    Raises ArchiveError for what is unknown (with what comes closest) or stands for several.
    """
    wanted = text.strip()
    everything = state.everything()
    if wanted in ("tip", "evolution", f"{state.run}/evolution", refs.evolution(state.run)):
        if state.tip is None:
            raise ArchiveError(f"run {state.run} has no finished round yet")
        return next(Named(n, o) for n, o in everything.items() if o == state.tip)
    found = _by_name(state.run, everything, wanted, kinds) or _by_hash(everything, wanted.lower())
    if not found:
        raise ArchiveError(
            f"nothing in run {state.run} is called {text!r}{_hint(everything, wanted)}"
        )
    if len(found) > 1:
        options = ", ".join(f"{f.name.kind} {f.name.label} {f.oid[:10]}" for f in found[:6])
        raise ArchiveError(
            f"{text!r} stands for several: {options}; say which (as in harness/r003-k2), or give "
            "more of the hash"
        )
    return found[0]


def _by_name(
    run: str, everything: Mapping[Name, str], wanted: str, among: Sequence[str]
) -> list[Named]:
    for prefix in (refs.hidden(run), refs.branches(run), f"{run}/"):
        wanted = wanted.removeprefix(prefix)
    kind, _, label = wanted.rpartition("/")
    kinds = (kind,) if kind else tuple(k for k in among if k not in refs.NUMBERED_KINDS)
    names = [name for k in kinds if k in refs.KINDS and (name := refs.parse_label(k, label))]
    return [Named(name, everything[name]) for name in names if name in everything]


def _by_hash(everything: Mapping[Name, str], wanted: str) -> list[Named]:
    if not _HEX.fullmatch(wanted):
        return []
    return [Named(n, oid) for n, oid in everything.items() if oid.startswith(wanted)]


def _hint(everything: Mapping[Name, str], wanted: str) -> str:
    """The nearest label or hash, as a question."""
    if not everything:
        return ": its archive is empty (coevo run starts it)"
    last = wanted.rpartition("/")[2]
    labels = sorted({name.label for name in everything})
    close = difflib.get_close_matches(last, labels, n=2, cutoff=0.6)
    if not close and _HEX.fullmatch(wanted.lower()):
        short = {oid[: len(wanted)]: name for name, oid in everything.items()}
        close = [
            f"{prefix[:12]} ({short[prefix].kind} {short[prefix].label})"
            for prefix in difflib.get_close_matches(wanted.lower(), list(short), n=1, cutoff=0.6)
        ]
    return f"; did you mean {' or '.join(close)}?" if close else "; coevo log lists what there is"
