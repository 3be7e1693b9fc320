"""The Curator: from the diagnosis and the archive to evidence and K hypotheses (paper eq. 7-8)."""

from __future__ import annotations

import random
from typing import Protocol, cast

from engine.brief import Curated
from engine.diagnosis import Feedback
from engine.seams import find
from engine.view import ArchiveView

CURATORS = {"embedded": "engine.curator.embedded:CURATOR"}


class Curator(Protocol):
    """Reads the archive step by step, at most ``retrieval_budget`` actions, and keeps the evidence
    within ``context_budget`` characters. Returns exactly ``k`` briefs in slots k1..kK, no two
    alike."""

    def curate(
        self,
        feedback: Feedback,
        view: ArchiveView,
        k: int,
        rng: random.Random,
        *,
        retrieval_budget: int = 24,
        context_budget: int = 12_000,
    ) -> Curated: ...


def curator(name: str) -> Curator:
    """The Curator called ``name``. Raises ConfigError for an unknown name."""
    return cast(Curator, find("curator.kind", name, CURATORS))
