"""Near duplicates over splits: texts that share at least ``THRESHOLD`` of their word shingles.

Exact, by an inverted index with prefix filtering (Chaudhuri et al. 2006, Bayardo et al. 2007):
of two sets with Jaccard index >= t, each in the order rarest first, the first
|s| - ceil(t |s|) + 1 members must meet, so only those are indexed. Any one order will do, so
rarity is counted in buckets. Shingles are kept as 64-bit hashes.

Tasks are compared within one setting. Where a task's content ends with its instruction
(``home|turn on the light``), what stands before it is the setting: the same words about another
home are another problem. Otherwise the whole content is the text. A content of one word (a
digest) can't be compared.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.domains import Task
from engine.overlap import even

THRESHOLD = 0.8
SHINGLE = 3  # words; a shorter text is one shingle
WORDS = 1000  # of a longer text only this beginning is compared
_EPSILON = 1e-9  # 0.8 * 5 must not be rounded up to 5
_BUCKETS = 2**22

Shingles = Sequence[int]
"""Distinct, in ascending order."""


@dataclass(frozen=True)
class Near:
    """Two tasks of two splits with almost the same text, the most alike of the second's."""

    splits: tuple[str, str]
    first: str
    second: str
    jaccard: float


@dataclass(frozen=True)
class _Text:
    """The tasks of one split that have one text in one setting."""

    split: int
    setting: str
    shingles: Shingles
    ids: tuple[str, ...]
    contents: frozenset[str]


def near_duplicates(parts: Mapping[str, Sequence[Task]]) -> list[Near]:
    """For each task its nearest in each earlier split, where that is near enough. Tasks of the
    same normalised content are left out: those are no near duplicates but the same."""
    names = list(parts)
    texts = [text for number, name in enumerate(names) for text in _texts(number, parts[name])]
    best: dict[tuple[int, str], Near] = {}
    for earlier, later, jaccard in _pairs(texts):
        if earlier.contents == later.contents:
            continue
        for own in later.ids:
            known = best.get((earlier.split, own))
            if known is None or jaccard > known.jaccard:
                splits = (names[earlier.split], names[later.split])
                best[earlier.split, own] = Near(splits, earlier.ids[0], own, jaccard)
    return list(best.values())


def incomparable(tasks: Sequence[Task]) -> int:
    """How many tasks have a content of one word, so that nothing can be near it."""
    return sum(len(_words(task.content)) < 2 for task in tasks)


def parted(task: Task) -> tuple[str, list[str]]:
    """The setting of a task and the words of its text."""
    words, said = _words(task.content), _words(task.instruction)
    if said and len(words) > len(said) and words[-len(said) :] == said:
        return " ".join(words[: -len(said)]), said
    return "", words


def _words(text: str) -> list[str]:
    """Letters and digits alone, so that a content which drops signs still ends with its
    instruction."""
    return re.findall(r"[^\W_]+", text.casefold())


def _texts(split: int, tasks: Sequence[Task]) -> Iterator[_Text]:
    ids: dict[tuple[str, bytes], list[str]] = defaultdict(list)
    contents: dict[tuple[str, bytes], set[str]] = defaultdict(set)
    for task in tasks:
        setting, words = parted(task)
        if setting or len(words) > 1:
            key = (setting, _shingles(words[:WORDS]).tobytes())
            ids[key].append(task.id)
            contents[key].add(even(task.content))
    for (setting, packed), own in ids.items():
        found = contents[setting, packed]
        yield _Text(split, setting, array("q", packed), tuple(own), frozenset(found))


def _shingles(words: Sequence[str]) -> array[int]:
    last = max(len(words) - SHINGLE, 0)
    return array("q", sorted({hash(tuple(words[i : i + SHINGLE])) for i in range(last + 1)}))


def _pairs(texts: Sequence[_Text]) -> Iterator[tuple[_Text, _Text, float]]:
    """Every pair of texts of two splits and one setting at or above the threshold, the one of the
    earlier split first."""
    counts = _frequencies(texts)
    index: dict[int, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):  # texts come split by split
        candidates: set[int] = set()
        for shingle in _prefix(text.shingles, counts):
            if counts[shingle % _BUCKETS] > 1:  # else no other text has it
                posting = index[hash((text.setting, shingle))]
                candidates.update(posting)
                posting.append(number)
        for other in candidates:
            earlier = texts[other]
            if earlier.split != text.split and earlier.setting == text.setting:
                jaccard = _jaccard(earlier.shingles, text.shingles)
                if jaccard >= THRESHOLD - _EPSILON:
                    yield earlier, text, jaccard


def _frequencies(texts: Sequence[_Text]) -> Sequence[int]:
    counts = array("I", bytes(4 * _BUCKETS))
    for text in texts:
        for shingle in text.shingles:
            counts[shingle % _BUCKETS] += 1
    return counts


def _prefix(shingles: Shingles, counts: Sequence[int]) -> Shingles:
    ordered = sorted(shingles, key=lambda each: (counts[each % _BUCKETS], each))
    return ordered[: len(ordered) - math.ceil(THRESHOLD * len(ordered) - _EPSILON) + 1]


def _jaccard(one: Shingles, other: Shingles) -> float:
    shared = len(set(one).intersection(other))
    return shared / (len(one) + len(other) - shared)
