"""The page on terminal tasks: it names the families there are, and its example works."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from terminal_play import played

from engine.domains.terminal.families import FAMILIES

PAGE = (Path(__file__).parents[1] / "docs" / "TERMINAL.md").read_text()


def test_it_lists_every_family_and_which_are_kept_out() -> None:
    listing = PAGE.split("## How a task runs", maxsplit=1)[0]
    rows = re.findall(r"^\| `(\w+)`( \(kept out\))? \|", listing, re.M)
    listed = {name: bool(kept) for name, kept in rows}
    assert listed == {family.name: family.ood for family in FAMILIES.values()}


def test_the_example_is_a_family() -> None:
    names: dict[str, Any] = {}
    exec(re.search(r"```python\n(.*?)```", PAGE, re.S)[1], names)  # type: ignore[index]
    family = names["FAMILY"]
    problem = family.make(random.Random(1), 2)
    assert len(problem.facts["lines"]) == 100
    assert problem.digest() != family.make(random.Random(2), 2).digest()
    assert played(problem, problem.solution)[0] == 1.0
    assert played(problem)[0] == 0.0
    score, words = played(problem, "tac lines.txt | head -n 50 > reversed.txt")
    assert score == 0.5, words
