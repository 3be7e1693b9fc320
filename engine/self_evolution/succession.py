"""Who runs the next batch: the heads of the lineages, and which of them holds the title.

In the paper there is one lineage, and its head takes over whatever its score. Several lineages
each go on from their own head; the title goes to the head that did best on the batch they all ran.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from engine.context import Context
from engine.errors import ConfigError
from engine.records import Inherited, Promotion


@dataclass(frozen=True)
class Head:
    """Where a lineage stands: its slot (``k1``...), its pair, and the session that made its
    harness or was refused for it last round ('' for none), as the text of a .dvc file."""

    slot: str
    pair: str
    session: str = ""


def heads(context: Context) -> tuple[Head, ...]:
    """The head of each lineage as the round begins."""
    opened, count = context.opened(), context.params.evolution.lineages
    last: Mapping[str, Head] = {}
    if opened.round > 1:
        done = context.archive.round(f"r{opened.round - 1:03d}")
        last = _left_by(json.loads(context.archive.read(done.oid, "round.json")))
    title = next((head for head in last.values() if head.pair == opened.incumbent), None)
    session = title.session if title else ""
    if count == 1:  # also after several: the best goes on alone
        return (Head("k1", opened.incumbent, session),)
    slots = [f"k{number}" for number in range(1, count + 1)]
    found = [last.get(slot, Head(slot, opened.incumbent, session)) for slot in slots]
    if opened.incumbent not in {head.pair for head in found}:  # fewer lineages than before
        found[-1] = Head(slots[-1], opened.incumbent, session)
    return tuple(found)


def _left_by(whole: Mapping[str, Mapping[str, list[Mapping[str, str]]]]) -> Mapping[str, Head]:
    """By lineage, from a round's record."""
    sessions = {
        lineage_of(each["slot"]): each["transcript"] for each in whole["offspring"]["offspring"]
    }
    candidates = [each for each in whole["candidates"]["candidates"] if each["pair"]]
    return {c["slot"]: Head(c["slot"], c["pair"], sessions.get(c["slot"], "")) for c in candidates}


def lineage_of(slot: str) -> str:
    """``k1`` of ``k1-2``, what a round that went on under other parameters calls a second try."""
    return slot.partition("-")[0]


def take_over(context: Context, inherited: Inherited) -> Promotion:
    """The selected head is the next incumbent. Its score is of another batch than the
    incumbent's, so there is no gain to tell. Raises ConfigError where nothing was measured."""
    opened = context.opened()
    if inherited.selected is None:
        raise ConfigError("round/candidates.json: no measured head; run `coevo stage inherit`")
    [chosen] = [c for c in inherited.candidates if c.pair == inherited.selected][:1]
    before = context.archive.pair(opened.incumbent).harness
    changed = chosen.harness != before
    return Promotion(
        round=opened.round,
        incumbent=opened.incumbent,
        next=inherited.selected,
        promoted=changed,
        source="inherited" if changed else "incumbent",
        gain=None,
        margin=0.0,
        why=chosen.why,
    )
