"""Intervals [start, end) of whole numbers."""

GAP = 2


def overlap(first: list[int], second: list[int]) -> int:
    """How many numbers are in both."""
    return max(0, min(first[1], second[1]) - max(first[0], second[0]))


def merged(intervals: list[list[int]]) -> list[list[int]]:
    """The same numbers in as few intervals as possible, in rising order."""
    found: list[list[int]] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def free(intervals: list[list[int]], start: int, end: int) -> list[list[int]]:
    """The parts of [start, end) of GAP numbers or more that no interval touches, rising."""
    result = []
    for busy_start, busy_end in [*sorted(intervals), [end, end]]:
        until = min(busy_start, end)
        if until - start >= GAP:
            result.append([start, until])
        start = max(start, busy_end)
    return result
