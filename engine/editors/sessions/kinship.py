"""Which archived harness a candidate really comes from, by its lines: bases and adoptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache

from kernel import workspace

RUN, NEW = 6, 5
"""Telling lines in a row, of which so many are new to the base: no accident when two share them."""
_CHARS = 100
_NEAR = 10
Files = Mapping[str, bytes]


def nearer(files: Files, base: Files, others: Mapping[str, Files]) -> str | None:
    """The harness that a candidate so much more likely comes from than from its declared base that
    the declaration can't be true; None where the base may stand.

    A base costs its own lines that are gone, and the candidate's lines that no harness has. Lines
    from other harnesses cost nothing: they may have been adopted.
    """
    lines = _counted(files)
    known = set().union(_counted(base), *map(_counted, others.values()))
    new = sum(count for line, count in lines.items() if line not in known)
    gone = {key: sum((_counted(other) - lines).values()) for key, other in others.items()}
    best = min(gone, key=lambda key: gone[key], default=None)
    if best is None:
        return None
    declared = sum((_counted(base) - lines).values()) + new
    return best if declared > 2 * (gone[best] + new) + _NEAR else None


def adopted(
    files: Files, base: Files, declared: Sequence[str], archive: Mapping[str, Files]
) -> Iterator[tuple[str, str]]:
    """Harnesses of ``archive`` (oldest first) that runs of lines new to the base were taken from
    word for word and that aren't ``declared``: (key, the file they stand in now).

    What a declared harness explains is nobody else's, and of several that hold a run the one that
    holds most of the runs is named, the oldest where they are equal.
    """
    had = _counted(base).keys()
    news = {run: name for run, name in _runs(files) if _novel(run, had)}
    holders = {key: news.keys() & {run for run, _ in _runs(each)} for key, each in archive.items()}
    for key in declared:
        for run in holders.get(key, ()):
            news.pop(run, None)
    while news and holders:
        most = max(holders, key=lambda each: len(holders[each] & news.keys()))
        taken = holders[most] & news.keys()
        if not taken:
            return
        yield most, min(news[run] for run in taken)
        for run in taken:
            del news[run]


def _novel(run: str, had: Container[str]) -> bool:
    lines = run.split("\n")
    return sum(line not in had for line in lines) >= min(NEW, len(lines))


def _counted(files: Files) -> Counter[str]:
    return Counter(line for name in workspace.code(files) for line in _lines(files[name]))


@lru_cache(maxsize=8192)  # harnesses of one archive share most of their files
def _lines(content: bytes) -> tuple[str, ...]:
    """The telling lines of a file: no blank ones, no lone brackets."""
    stripped = (line.strip() for line in content.decode("utf-8", "replace").splitlines())
    return tuple(line for line in stripped if any(c.isalnum() for c in line))


def _runs(files: Files) -> Iterator[tuple[str, str]]:
    """(run of lines, its file)."""
    for name in sorted(workspace.code(files)):
        for run in _runs_of(files[name]):
            yield run, name


@lru_cache(maxsize=8192)
def _runs_of(content: bytes) -> tuple[str, ...]:
    """Runs of lines; a file shorter than one is a run."""
    lines = _lines(content)
    starts = range(max(1, len(lines) - RUN + 1))
    runs = ("\n".join(lines[start : start + RUN]) for start in starts)
    return tuple(run for run in runs if len(run) >= _CHARS)
