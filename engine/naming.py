"""Names in the append-only archive: the same thing keeps its name, another takes the next free one.

A round that broke off may go on under changed parameters, and then makes other things than those
it had archived. What is archived stays and is used again where it is the same; what differs gets
``r001-k1-2``, ``r001-k1-3``, ... in place of ``r001-k1``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Settled(NamedTuple, Generic[T]):
    """A name, and the archived entry that it stands for (None: the name is free)."""

    name: str
    known: T | None


def settle(wanted: str, taken: Mapping[str, T], same: Callable[[T], bool]) -> Settled[T]:
    """The name of what is archived as ``wanted``, or as one of its successors, and is the ``same``;
    otherwise the first free one of these names."""
    for number in itertools.count(1):
        name = wanted if number == 1 else f"{wanted}-{number}"
        if name not in taken:
            return Settled(name, None)
        if same(taken[name]):
            return Settled(name, taken[name])
    raise AssertionError("unreachable: the names never end")
