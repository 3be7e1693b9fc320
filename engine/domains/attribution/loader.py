"""Splits from the files of Who&When and TracerTraj.

Where both are there, test tasks are Who&When's, training and validation tasks TracerTraj's, as in
the first paper; where one is, its logs are divided at random. All logs of one question go to one
split.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.domains.attribution import files
from engine.domains.attribution.filters import FILTERS, ON_TRACES, ONE_ERROR, several_errors
from engine.domains.attribution.parsing import parse
from engine.domains.attribution.trace import Trace, make_task
from engine.domains.reading import fault, tolerating
from engine.domains.split import TaskSplits, checked_sizes, interleave
from engine.errors import ConfigError, DataError

Group = list[Trace]
"""The logs of one question."""


@dataclass(frozen=True)
class Collection:
    """The logs of a folder. ``skipped`` has a line for each malformed row, ``left_out`` one for
    each that a filter dropped, ``dropped`` the number by filter; ``absent`` are the ids of both."""

    traces: Sequence[Trace]
    skipped: Sequence[str] = ()
    left_out: Sequence[str] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()


def load(
    data: Path,
    seed: int,
    sizes: Mapping[str, int],
    *,
    filters: Sequence[str] = FILTERS,
    skip_bad_rows: bool = False,
) -> TaskSplits:
    """Disjoint splits by id and by question, the same for the same seed and sizes. ``filters``
    hold for training and validation, as in the first paper (a label of several errors can be no
    test task either); ``left_out`` lists what they dropped. With ``skip_bad_rows`` malformed rows
    are left out and listed in ``skipped``.

    Raises DataError for a missing or malformed file or row, or more tasks asked than there are;
    ConfigError for sizes that make no sense.
    """
    wanted = checked_sizes(sizes)
    first = [name for name in filters if name == ONE_ERROR]
    whole = read(data, filters=first, skip_bad_rows=skip_bad_rows)
    groups = _by_question(whole.traces, seed)
    foreign = [group for group in groups if _who_and_when(group)]
    own = [group for group in groups if not _who_and_when(group)]
    if foreign and own:
        test, _ = _take(foreign, wanted["test"], data, "test")
    else:
        test, own = _take(groups, wanted["test"], data, "test")
    fit, dropped = _filtered(own, filters)
    validation, rest = _take(fit, wanted["validation"], data, "validation")
    train, _ = _take(rest, wanted["train"], data, "train")
    return TaskSplits(
        train=tuple(map(make_task, train)),
        validation=tuple(map(make_task, validation)),
        test=tuple(map(make_task, test)),
        skipped=tuple(whole.skipped),
        left_out=(*whole.left_out, *dropped),
    )


def read(data: Path, *, filters: Sequence[str] = (), skip_bad_rows: bool = False) -> Collection:
    """Every log below ``data`` (see ``files.rows``) that passes the filters.

    Raises DataError for a malformed row, with ``skip_bad_rows`` listed instead, and for an id that
    stands twice; ConfigError for an unknown filter.
    """
    _check(filters)
    skipped: list[str] = []
    left_out: list[str] = []
    dropped: Counter[str] = Counter(dict.fromkeys(filters, 0))
    traces: dict[str, Trace] = {}
    absent: set[str] = set()
    for row in files.rows(data, skipped if skip_bad_rows else None):
        key = ""
        with tolerating(skipped if skip_bad_rows else None):
            key = files.row_id(row)
            if key in traces or key in absent:
                raise fault(row.where, "question_ID", "an id not used before", key)
            absent.add(key)
            name, why = _several(row, filters)
            if not name:
                trace = parse(row.fields, row.where, key, row.source)
                name, why = unfit(trace, filters)
                if not name:
                    traces[key] = trace
                    absent.discard(key)
            if name:
                dropped[name] += 1
                left_out.append(_line(key, name, why))
    return Collection(list(traces.values()), skipped, left_out, dict(dropped), frozenset(absent))


def _check(filters: Sequence[str]) -> None:
    for name in filters:
        if name not in FILTERS:
            raise ConfigError(f"filter: no filter is called {name!r}; known: {', '.join(FILTERS)}")


def _several(row: files.Row, filters: Sequence[str]) -> tuple[str, str]:
    why = several_errors(row.fields) if ONE_ERROR in filters else ""
    return (ONE_ERROR, why) if why else ("", "")


def unfit(trace: Trace, filters: Sequence[str]) -> tuple[str, str]:
    """The first of the filters that drops this log, and why; two empty texts where none does."""
    for name in filters:
        why = ON_TRACES[name](trace) if name in ON_TRACES else ""
        if why:
            return name, why
    return "", ""


def _line(key: str, name: str, why: str) -> str:
    return f"{key}: left out by {name}: {why}"


def _who_and_when(group: Group) -> bool:
    return any(trace.source in files.WHO_AND_WHEN for trace in group)


def _by_question(traces: Sequence[Trace], seed: int) -> list[Group]:
    groups: dict[str, Group] = defaultdict(list)
    for trace in traces:
        groups[trace.group].append(trace)
    ordered = list(groups.values())
    random.Random(f"attribution {seed}").shuffle(ordered)
    return ordered


def _filtered(groups: Sequence[Group], filters: Sequence[str]) -> tuple[list[Group], list[str]]:
    """The groups without what the filters drop, and a line for each log of that."""
    _check(filters)
    kept, dropped = [], []
    for group in groups:
        fit = []
        for trace in group:
            name, why = unfit(trace, filters)
            if name:
                dropped.append(_line(trace.id, name, why))
            else:
                fit.append(trace)
        if fit:
            kept.append(fit)
    return kept, sorted(dropped)


def _take(
    groups: Sequence[Group], size: int, data: Path, split: str
) -> tuple[list[Trace], list[Group]]:
    """``size`` logs of the first questions, and the questions left; one that was begun is used up.
    The subsets are spread evenly."""
    taken: list[Trace] = []
    used = 0
    while len(taken) < size and used < len(groups):
        taken += groups[used]
        used += 1
    if len(taken) < size:
        raise DataError(
            f"{data}: {split}: {size} tasks asked, {len(taken)} there are; lower sizes.{split}"
        )
    by_source: dict[str, list[Trace]] = defaultdict(list)
    for trace in taken[:size]:
        by_source[trace.source].append(trace)
    return interleave(by_source), list(groups[used:])
