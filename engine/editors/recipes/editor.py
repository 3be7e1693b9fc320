"""The recipes editor: a base by its outcomes, the brief's mechanisms, adopted where they proved."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.archive.drafts import Adoption
from engine.brief import Brief, Evidence
from engine.editors import Edit
from engine.editors.recipes import apply as recipe
from engine.editors.recipes import report
from engine.editors.recipes.base import choose_base, donors
from engine.editors.recipes.catalogue import RECIPES
from engine.view import ArchiveView, HarnessSummary
from kernel.budget import added_lines

NAME = "recipes"


@dataclass
class _Draft:
    """A workspace under way."""

    base: str
    start: Mapping[str, bytes]
    files: dict[str, bytes]
    limit: int | None
    changes: list[recipe.Change] = field(default_factory=list)
    adopts: list[Adoption] = field(default_factory=list)

    def take(self, applied: recipe.Applied | None, donor: str | None = None) -> bool:
        """Keep a change if there is one and the line budget allows it."""
        if applied is None:
            return False
        if self.limit is not None and added_lines(self.start, applied.files) > self.limit:
            return False
        self.files = applied.files
        self.changes.append(applied.change)
        if donor is not None:
            self.adopts.append(Adoption(donor, applied.change.mechanism))
        return True

    def done(self, brief: Brief, repaired: str = "") -> Edit:
        changed, adopts = tuple(self.changes), tuple(self.adopts)
        added = added_lines(self.start, self.files)
        files = report.written(self.files, brief, self.base, changed, adopts, added, repaired)
        return Edit(
            files=files,
            base=self.base,
            subject=report.subject(changed),
            editor=NAME,
            adopts=adopts,
            mechanisms=tuple(dict.fromkeys(change.mechanism for change in changed)),
        )


class RecipesEditor:
    """See engine.editors.Editor."""

    def edit(
        self,
        brief: Brief,
        evidence: Evidence,
        view: ArchiveView,
        rng: random.Random,
        line_budget: int | None,
    ) -> Edit:
        entries = view.index()
        base = choose_base(brief, entries, rng)
        draft = _open(base, view, line_budget)
        for name in brief.mechanisms:
            _develop(draft, name, entries, view, rng, vary=brief.kind == "vary")
        if not draft.changes:
            _anything(draft, rng)
        return draft.done(brief)

    def repair(
        self,
        edit: Edit,
        reasons: Sequence[str],
        brief: Brief,
        view: ArchiveView,
        rng: random.Random,
        line_budget: int | None,
    ) -> Edit:
        """A duplicate or an empty edit gets one change more; after any other failure the edit is
        made again without its last mechanism."""
        kinds = {reason.partition(":")[0] for reason in reasons}
        alike = kinds <= {"duplicate", "empty"}
        kept = edit.mechanisms if alike else edit.mechanisms[:-1]
        entries, draft = view.index(), _open(edit.base, view, line_budget)
        origin = {adoption.mechanism: adoption.oid for adoption in edit.adopts}
        for name in kept:
            if name in origin:
                taken = recipe.adopt(draft.files, view.files(origin[name]), name)
                draft.take(taken, origin[name])
            else:
                _develop(draft, name, entries, view, rng, vary=False)
        if alike or not draft.changes:
            _anything(draft, rng, but=edit.mechanisms)
        return draft.done(brief, "; ".join(reasons))


def _open(base: str, view: ArchiveView, limit: int | None) -> _Draft:
    files = dict(view.files(base))
    return _Draft(base, files, dict(files), limit)


def _develop(
    draft: _Draft,
    name: str,
    entries: Sequence[HarnessSummary],
    view: ArchiveView,
    rng: random.Random,
    *,
    vary: bool,
) -> None:
    """Bring one mechanism in: from the best donor if there is one, else from the catalogue."""
    there = name in recipe.present(draft.files)
    if not vary or not there:
        for donor in donors(name, draft.base, entries)[:3]:
            if draft.take(recipe.adopt(draft.files, view.files(donor.oid), name), donor.oid):
                return
    if name in RECIPES:
        draft.take(recipe.apply(draft.files, name, rng))


def _anything(draft: _Draft, rng: random.Random, but: Sequence[str] = ()) -> None:
    """One change that the brief didn't name: a mechanism the base lacks, else another setting."""
    present = recipe.present(draft.files)
    usable = [name for name, each in RECIPES.items() if recipe.applicable(draft.files, each)]
    lacking = [name for name in usable if name not in present]
    others = [name for name in usable if name in present]
    rng.shuffle(lacking)
    rng.shuffle(others)
    for name in [*(n for n in lacking if n not in but), *others, *lacking]:
        if draft.take(recipe.apply(draft.files, name, rng)):
            return


EDITOR = RecipesEditor()
