"""Success anchors: tasks that earlier stages solved, run again with the current harness (§3.4)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

from engine.domains import Task


def choose(
    solved: Mapping[str, Sequence[Task]], count: int, step: int, seed: str
) -> tuple[Task, ...]:
    """``count`` of the solved tasks, spread evenly over the families (their numbers differ by one
    at most while each has enough); all of them where there are fewer.

    ``step`` is the iteration within the stage: each takes up where the one before it stopped, so
    that anchors repeat only when a family has no more.
    """
    families = [family for family, tasks in solved.items() if tasks]
    if not families or not count:
        return ()
    share = -(-count // len(families))
    queues = []
    for family in families:
        order = list(solved[family])
        random.Random(f"{seed}/anchors/{family}").shuffle(order)
        start = step * share % len(order)
        queues.append(order[start:] + order[:start])
    # One of each family in turn: even, and what one family lacks comes from the others.
    turns = itertools.chain.from_iterable(itertools.zip_longest(*queues))
    return tuple(itertools.islice((task for task in turns if task is not None), count))
