"""A store of limited size that forgets what was unused for longest."""

from __future__ import annotations

from collections import OrderedDict

SIZE = 3


class Cache:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, int] = OrderedDict()

    def get(self, key: str) -> int | None:
        """The value kept for a key, None without one. Reading is a use."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def put(self, key: str, value: int) -> None:
        """Keep a value; over SIZE of them, the one unused for longest goes."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > SIZE:
            self._kept.popitem(last=False)


def reads(steps: list[tuple[str] | tuple[str, int]]) -> list[int | None]:
    """What each read of a new cache gives; a step is [key] for a read, [key, value] else."""
    cache, found = Cache(), []
    for step in steps:
        if len(step) == 1:
            found.append(cache.get(step[0]))
        else:
            cache.put(*step)
    return found
