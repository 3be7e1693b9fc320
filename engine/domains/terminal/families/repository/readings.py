"""Series of whole numbers."""

import itertools

WINDOW = 3


def median(values: list[int]) -> int:
    """The middle one in order; of an even number of values the smaller of the two in the middle.
    Raises ValueError without any."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[(len(values) - 1) // 2]


def sums(values: list[int]) -> list[int]:
    """The sum of each WINDOW values in a row."""
    return [sum(values[at : at + WINDOW]) for at in range(len(values) - WINDOW + 1)]


def longest_rise(values: list[int]) -> int:
    """How many values the longest part has in which each is larger than the one before."""
    best = run = min(1, len(values))
    for before, value in itertools.pairwise(values):
        run = run + 1 if value > before else 1
        best = max(best, run)
    return best
