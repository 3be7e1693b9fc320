"""Rank the bundled examples by the words they share with the instruction."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

COMMON = frozenset(["the", "in", "of", "to", "on", "a", "and", "is", "it", "please"])
PAIRS = False  # count pairs of neighbouring words too


def features(text: str) -> set[str]:
    said = [word.rstrip("s") for word in re.findall(r"[a-z]+", text.lower())]
    single = {word for word in said if word not in COMMON}
    return single | {f"{a} {b}" for a, b in pairwise(said)} if PAIRS else single


def rank(agent: Any, examples: list[dict[str, str]]) -> list[dict[str, str]]:
    wanted = features(agent.instruction)

    def likeness(example: dict[str, str]) -> float:
        has = features(example["instruction"])
        return len(wanted & has) / (1 + len(wanted | has))

    return sorted(examples, key=likeness, reverse=True)
