"""Which archived harness to start from, and whose designs to adopt."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

from engine.brief import Brief
from engine.view import HarnessSummary, gain

TEMPERATURE = 0.05
"""A harness that is this much worse on the objective is e times less likely to be a base."""
CURIOSITY = 0.04
"""Bonus for a design that nothing was built on yet; it halves with the first child."""
HINT = 0.05
"""Bonus for the base that the brief names."""


def choose_base(brief: Brief, entries: Sequence[HarnessSummary], rng: random.Random) -> str:
    """Draw the base: softmax over measured outcomes, with bonuses for designs that are little
    explored and for the Curator's hint. Raises ValueError where no harness is usable."""
    usable = [entry for entry in entries if entry.usable]
    candidates = [entry for entry in usable if entry.scalar is not None] or usable
    if not candidates:
        raise ValueError("the archive holds no harness that can be a base")
    children = Counter(entry.base for entry in entries)
    worth = [
        (entry.scalar or 0.0)
        + CURIOSITY / (1 + children[entry.oid])
        + (HINT if entry.oid == brief.base else 0.0)
        for entry in candidates
    ]
    best = max(worth)
    weights = [math.exp((value - best) / TEMPERATURE) for value in worth]
    return rng.choices(candidates, weights)[0].oid


def donors(mechanism: str, base: str, entries: Sequence[HarnessSummary]) -> list[HarnessSummary]:
    """Harnesses to adopt a mechanism from, the best first: they gained on their own base, or do
    better than the present one."""
    by_oid = {entry.oid: entry for entry in entries}
    here = by_oid[base].scalar or 0.0
    good = [
        entry
        for entry in entries
        if entry.usable
        and entry.oid != base
        and mechanism in entry.mechanisms
        and entry.scalar is not None
        and (entry.scalar > here or (gain(entry, by_oid) or 0.0) > 0)
    ]
    return sorted(good, key=lambda entry: (-(entry.scalar or 0.0), entry.oid))
