"""The Curator: from the diagnosis and the archive to evidence and K hypotheses (paper eq. 7-8)."""

from __future__ import annotations

import random
from typing import Protocol, cast, runtime_checkable

from engine.brief import Curated
from engine.diagnosis import Feedback
from engine.llm.dialogue import Asked
from engine.seams import find
from engine.view import ArchiveView

CURATORS = {
    "embedded": "engine.curator.embedded:CURATOR",
    "llm": "engine.curator.llm:CURATOR",
}


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


@runtime_checkable
class AskingCurator(Protocol):
    """A Curator that asks a language model with ``context`` tokens. Where that answers nonsense,
    it returns the embedded Curator's briefs with a notice; raises ModelError and BudgetSpent."""

    async def ask(
        self,
        llm: Asked,
        feedback: Feedback,
        view: ArchiveView,
        k: int,
        rng: random.Random,
        *,
        retrieval_budget: int = 24,
        context_budget: int = 12_000,
        context: int = 128_000,
    ) -> Curated: ...


def curator(name: str) -> Curator | AskingCurator:
    """The Curator called ``name``. Raises ConfigError for an unknown name."""
    return cast(Curator | AskingCurator, find("curator.kind", name, CURATORS))
