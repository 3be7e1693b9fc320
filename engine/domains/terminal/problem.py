"""One terminal task before it is a Task, and the families that make them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.domains.terminal.live import Live

DIFFICULTIES = range(1, 6)


@dataclass(frozen=True)
class Problem:
    """An instruction, the files of ``/app``, and what only the grader knows.

    ``grader`` is the source of ``grade.py``: it reads a copy of ``/app`` and
    ``/grader/facts.json`` (``facts``, and the live part's outcome as ``live``), prints what it
    found in lines, and last a line of JSON with ``score`` in [0, 1]. ``solution`` is a bash script
    that solves the task when run in ``/app``, ``solution_calls`` are calls of the live tools that
    come after it (name, arguments): the proof that it can be solved. ``programs`` are paths of
    ``files`` that are executable.
    """

    instruction: str
    files: Mapping[str, bytes]
    grader: str
    facts: Mapping[str, Any]
    solution: str
    programs: tuple[str, ...] = ()
    live: Callable[[], Live] | None = None
    solution_calls: tuple[tuple[str, Mapping[str, Any]], ...] = field(default=())

    def digest(self) -> str:
        """The identity of everything that a rollout and its score depend on here."""
        hashed = hashlib.sha256()
        for name in sorted(self.files):
            hashed.update(name.encode() + b"\0" + hashlib.sha256(self.files[name]).digest())
        rest = [self.instruction, self.grader, dict(self.facts), list(self.programs)]
        hashed.update(json.dumps(rest, sort_keys=True).encode())
        return hashed.hexdigest()[:24]


@dataclass(frozen=True)
class Family:
    """Tasks of one kind, endless: ``make`` draws one of a difficulty in ``DIFFICULTIES``.

    ``ood`` families are kept out of evolution and measured apart, out of distribution.
    """

    name: str
    make: Callable[[random.Random, int], Problem]
    ood: bool = False
