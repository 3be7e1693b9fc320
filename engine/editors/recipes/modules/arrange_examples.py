"""The order in which examples are shown; what stands last weighs most."""

from __future__ import annotations

from typing import Any

ORDER = "best_last"  # best_last, short_first or long_first


def arrange(agent: Any, examples: list[dict[str, str]]) -> list[dict[str, str]]:
    if ORDER == "best_last":
        return examples[::-1]
    longest_first = ORDER == "long_first"
    return sorted(examples, key=lambda each: len(each["instruction"]), reverse=longest_first)
