"""The Curator that is a language model; the embedded one takes over where it answers nonsense."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.brief import Curated, Evidence
from engine.curator import wording
from engine.curator.browsing import TOOLS, Browsing
from engine.curator.embedded import CURATOR as EMBEDDED
from engine.curator.evidence import figures
from engine.curator.hypotheses import WRITE, Terms, written
from engine.curator.taxonomy import CLASSIFY, classes
from engine.diagnosis import FEWEST, MOST, FailureClass, Feedback
from engine.editors.recipes.catalogue import RECIPES
from engine.llm.dialogue import TRIES, Asked, Dialogue, GivenUp, SentBack
from engine.view import ArchiveView

ROLE = "curator"
_RESULT = 12_000
_LEAST_RESULT = 400


class LLMCurator:
    """See engine.curator.AskingCurator."""

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
    ) -> Curated:
        browsing = Browsing(view, retrieval_budget)
        known = _mechanisms(browsing)
        opened = wording.opening(feedback, browsing.entries, known, k, retrieval_budget, context)
        session = _Session(Dialogue(llm, ROLE, opened), browsing, feedback, context)
        try:
            await session.inspect()
            return await session.write(k, known, context_budget)
        except GivenUp as error:
            made = EMBEDDED.curate(
                feedback,
                view,
                k,
                rng,
                retrieval_budget=retrieval_budget,
                context_budget=context_budget,
            )
            seen = (*browsing.inspections, *made.evidence.inspections)
            return replace(
                made,
                evidence=replace(made.evidence, inspections=seen),
                notice=f"the language model was given up after {TRIES} wrong replies in a row "
                f"({error}); the embedded Curator wrote evidence and briefs",
            )


def _mechanisms(browsing: Browsing) -> Mapping[str, str]:
    """Those of the catalogue and of the archive, with their effects."""
    there = {name for entry in browsing.entries for name in entry.mechanisms}
    known = {name: recipe.effect for name, recipe in RECIPES.items()}
    return dict.fromkeys(there, "stands in the archive") | known


@dataclass
class _Session:
    """The three steps of one round."""

    dialogue: Dialogue
    browsing: Browsing
    feedback: Feedback
    context: int

    async def inspect(self) -> None:
        """Actions until the model stops or a budget is used up."""
        limit = wording.inspection_bytes(self.context)
        share = (limit - self.dialogue.size) // self.browsing.left
        while self.browsing.left:
            for call in await self.dialogue.calls(TOOLS):
                if limit - self.dialogue.size < _LEAST_RESULT:
                    self.browsing.exhaust("the context budget is used up")
                try:
                    room = min(_RESULT, max(share, _LEAST_RESULT), limit - self.dialogue.size)
                    self.dialogue.answer(call, self.browsing.act(call, room))
                except SentBack as error:
                    self.dialogue.refuse(call, str(error))

    async def write(self, k: int, known: Mapping[str, str], budget: int) -> Curated:
        """Classes, then evidence and briefs."""
        found = await self._classify()
        head = figures(replace(self.feedback, classes=found), budget // 2)
        title = "\n## What the archive shows\n"
        terms = Terms(
            k=k,
            classes=[each.name for each in found],
            mechanisms=known,
            entries=self.browsing.entries,
            evidence=budget - len(head) - len(title),
        )
        self.dialogue.say(wording.to_write(k, terms.evidence, list(terms.classes)))
        taken = await self.dialogue.settle(WRITE, lambda said: written(said, terms))
        evidence = Evidence(head + title + taken.evidence, tuple(self.browsing.inspections))
        return Curated(evidence, taken.briefs, found)

    async def _classify(self) -> tuple[FailureClass, ...]:
        count = len(self.feedback.failures)
        if not count:
            return ()
        self.dialogue.say(wording.to_classify(count, min(FEWEST, count), MOST))
        return await self.dialogue.settle(CLASSIFY, lambda said: classes(said, self.feedback))


CURATOR = LLMCurator()
