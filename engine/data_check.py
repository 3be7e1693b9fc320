"""What ``coevo data check`` reports of a run's splits: sizes, strata, overlaps, near duplicates.

It reads the test split, so no round may call it: nothing that a stage imports imports this, and
it takes the run's lock, which every stage holds. Of the test split it says figures alone, not even
ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine import splits
from engine.context import Context
from engine.domains import Task
from engine.near import THRESHOLD, incomparable, near_duplicates
from engine.overlap import KINDS, overlaps, repeats
from engine.splits import FrozenSplits, Made

EXAMPLES = 5
CLOSED = "test"


@dataclass(frozen=True)
class SplitFacts:
    """One split: its tasks, how many there are of each value of each stratum, how many repeat
    another's id, content or group in it, and how many can't be compared by their words."""

    tasks: int
    strata: Mapping[str, Mapping[str, int]]
    repeats: Mapping[str, int]
    incomparable: int


@dataclass(frozen=True)
class Shared:
    """Tasks of the second split that have an id, a content or a group in common with the first,
    or are near to one there. ``examples`` are ids, of the test split none."""

    kind: str  # id | content | group | near
    splits: tuple[str, str]
    tasks: int
    examples: Sequence[Sequence[str]]


@dataclass(frozen=True)
class DataReport:
    """``frozen`` says that round 0 has frozen the splits; ``skipped`` counts the malformed rows,
    ``left_out`` the sound ones that the domain's filters dropped, ``…_rows`` list them where the
    splits were made just now."""

    domain: str
    source: str
    frozen: bool
    splits: Mapping[str, SplitFacts]
    overlaps: Sequence[Shared]
    near: Sequence[Shared]
    near_threshold: float
    skipped: int
    skipped_rows: Sequence[str]
    left_out: int
    left_out_rows: Sequence[str]

    @property
    def disjoint(self) -> bool:
        """Whether no id, content or group stands in two splits, and no id twice in one."""
        return not self.overlaps and not any(each.repeats["id"] for each in self.splits.values())


def check(context: Context) -> DataReport:
    """Check the splits that round 0 froze, or those it would make now.

    Raises DataError and ConfigError as making the splits does, ArchiveLocked inside a round.
    """
    with context.archive.lock():
        if context.archive.tip() is None:
            made = splits.make(context.root, context.params, context.domain)
            return report(context.domain.name, made)
        frozen = context.frozen
        parts = {
            name: splits.load(context.root, context.params.run, name, frozen, context.dvc).tasks
            for name in splits.NAMES
        }
    return report(context.domain.name, Made(parts, frozen.source), frozen)


def report(domain: str, made: Made, frozen: FrozenSplits | None = None) -> DataReport:
    """The report on some splits; ``frozen`` is what round 0 recorded of them."""
    exact = [(each.kind, each.splits, each.first, each.second) for each in overlaps(made.parts)]
    near = [("near", each.splits, each.first, each.second) for each in near_duplicates(made.parts)]
    return DataReport(
        domain=domain,
        source=made.source,
        frozen=frozen is not None,
        splits={name: _facts(tasks) for name, tasks in made.parts.items()},
        overlaps=_shared(exact),
        near=_shared(near),
        near_threshold=THRESHOLD,
        skipped=frozen.skipped if frozen else len(made.skipped),
        skipped_rows=tuple(made.skipped),
        left_out=frozen.left_out if frozen else len(made.left_out),
        left_out_rows=tuple(made.left_out),
    )


def _facts(tasks: Sequence[Task]) -> SplitFacts:
    strata: dict[str, Counter[str]] = {}
    for task in tasks:
        for key, value in task.strata.items():
            strata.setdefault(key, Counter())[value] += 1
    return SplitFacts(
        tasks=len(tasks),
        strata={key: dict(sorted(strata[key].items())) for key in sorted(strata)},
        repeats={kind: repeats(tasks, kind) for kind in KINDS},
        incomparable=incomparable(tasks),
    )


Found = tuple[str, tuple[str, str], str, str]


def _shared(found: Sequence[Found]) -> list[Shared]:
    counted = Counter((kind, names) for kind, names, _, _ in found)
    return [
        Shared(kind, names, count, _examples([f for f in found if f[:2] == (kind, names)]))
        for (kind, names), count in counted.items()
    ]


def _examples(found: Sequence[Found]) -> Sequence[Sequence[str]]:
    """The ids of a few, each once, those of the closed split left out."""
    shown = []
    for _, names, first, second in found:
        ids = tuple(own for own, name in zip((first, second), names, strict=True) if name != CLOSED)
        if ids not in shown:
            shown.append(ids)
        if len(shown) == EXAMPLES:
            break
    return shown
