"""The Curator that needs no LLM: hypotheses from failure classes, remedies and past outcomes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.brief import Brief, Curated, Evidence
from engine.curator.credit import Credits
from engine.curator.evidence import write
from engine.curator.remedies import remedies
from engine.curator.retrieval import HARNESS, History, retrieve
from engine.diagnosis import ADDRESSABLE, EXTERNAL, FailureClass, Feedback
from engine.editors.recipes.apply import applicable
from engine.editors.recipes.catalogue import RECIPES
from engine.view import ArchiveView

BUNDLE = 3
"""Mechanisms in a brief that addresses one failure class."""
_WEIGHT = {ADDRESSABLE: 1.0, EXTERNAL: 0.0}


class EmbeddedCurator:
    """See engine.curator.Curator."""

    def curate(
        self,
        feedback: Feedback,
        view: ArchiveView,
        k: int,
        rng: random.Random,
        *,
        retrieval_budget: int = 24,
        context_budget: int = 12_000,
    ) -> Curated:
        history = retrieve(view, retrieval_budget)
        planner = _Planner(feedback, history, rng)
        briefs = tuple(
            replace(brief, slot=f"k{number}")
            for number, brief in enumerate(_distinct(planner.proposals(k), k), start=1)
        )
        text = write(feedback, history, planner.credits, context_budget)
        return Curated(Evidence(text, tuple(history.inspections)), briefs)


def _distinct(proposals: Iterator[Brief], k: int) -> list[Brief]:
    chosen: dict[tuple[str, tuple[str, ...]], Brief] = {}
    for brief in proposals:
        chosen.setdefault((brief.kind, brief.mechanisms), brief)
        if len(chosen) == k:
            break
    return list(chosen.values())


class _Planner:
    """Proposes briefs in the order in which they should fill the slots."""

    def __init__(self, feedback: Feedback, history: History, rng: random.Random) -> None:
        self.feedback, self.history, self.rng = feedback, history, rng
        self.credits = Credits(history.entries)
        incumbent = history.incumbent
        self.base = incumbent.oid if incumbent else None
        self.has = set(incumbent.mechanisms) if incumbent else set()
        code = {} if incumbent is None else history.files.get((incumbent.oid, HARNESS), "")
        files = {HARNESS: code.encode()} if isinstance(code, str) and code else {}
        self.usable = {
            name for name, recipe in RECIPES.items() if not files or applicable(files, recipe)
        }
        self.classes = sorted(feedback.classes, key=self._mass, reverse=True)

    def proposals(self, k: int) -> Iterator[Brief]:
        """Round 1: a bundle for each leading class and one that combines their best; later also
        the recombination of the best designs. Then ever finer variations, without end."""
        addressed = [brief for each in self.classes if (brief := self._address(each, 0))]
        whole = [b for b in (self._recombine(), self._combine()) if b is not None]
        yield from addressed[: max(1, k - len(whole))]
        yield from whole
        yield from addressed[max(1, k - len(whole)) :]
        for depth in range(1, BUNDLE):
            yield from (brief for each in self.classes if (brief := self._address(each, depth)))
        varied = sorted(self.has & set(RECIPES))
        self.rng.shuffle(varied)
        yield from (self._vary((name,)) for name in varied if RECIPES[name].choices)
        names = sorted(self.usable) or sorted(RECIPES)
        for size in range(1, len(names) + 1):
            for _ in range(20):
                picked = tuple(sorted(self.rng.sample(names, size)))
                yield self._vary(picked)

    def _mass(self, each: FailureClass) -> float:
        return each.count * _WEIGHT.get(each.kind, 0.6)

    def _ranked(self, each: FailureClass) -> list[str]:
        """Remedies that the incumbent lacks, by expected gain; the prior order breaks ties."""
        names = [n for n in remedies(each.cause) if n in self.usable and n not in self.has]
        order = {name: place for place, name in enumerate(names)}
        return sorted(names, key=lambda n: (-round(self.credits.of(n).expected, 2), order[n]))

    def _address(self, each: FailureClass, skip: int) -> Brief | None:
        names = tuple(self._ranked(each)[skip : skip + BUNDLE])
        if not names or not self._mass(each):
            return None
        share = f"{each.count} of {self.feedback.n}"
        text = f"{each.name}: {share} fail so ({each.kind}). {_effects(names)}"
        return Brief("", "address", text, each.name, names, self.base)

    def _combine(self) -> Brief | None:
        """The best remedy of each class, then each one's second best, until there are enough."""
        ranked = [self._ranked(each) for each in self.classes if self._mass(each)]
        rows = itertools.chain.from_iterable(itertools.zip_longest(*ranked))
        good = (n for n in rows if n is not None and self.credits.of(n).expected > 0)
        names = tuple(dict.fromkeys(good))[: 2 * BUNDLE]
        if len(names) < 2:
            return None
        text = f"The failure classes have different remedies that compose. {_effects(names)}"
        return Brief("", "combine", text, "all classes", names, self.base)

    def _recombine(self) -> Brief | None:
        """What raised the score in other harnesses and the incumbent lacks."""
        good = [name for name, credit in self.credits.tried() if (credit.gain or 0.0) > 0]
        names = tuple(n for n in good if n not in self.has)
        if len([e for e in self.history.entries if e.scalar is not None]) < 3 or not names:
            return None
        text = f"Designs that gained elsewhere may add up: {', '.join(names)}."
        return Brief("", "recombine", text, "all classes", names, self.base)

    def _vary(self, names: Sequence[str]) -> Brief:
        text = f"Another setting of {', '.join(names)} may suit the present checkpoint better."
        return Brief("", "vary", text, "what works already", tuple(names), self.base)


def _effects(names: Sequence[str]) -> str:
    known = [f"{name}: {RECIPES[name].effect}" for name in names if name in RECIPES]
    return f"Expected of {'; '.join(known)}."


CURATOR = EmbeddedCurator()
