"""How a team goes about a counting question, step by step, with errors where they are wanted.

A *slot* is a step at which something may go wrong. A course is played twice with the same dice:
once without errors, to see which slots there are, and once with a decisive error in one slot and
errors that a colleague mends at once in some others. What is said after an error goes on with the
wrong number, so that its symptoms stand far from it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from engine.domains.attribution.puzzle import GOODS, Cast, Puzzle, listed

DECISIVE, MENDED = "decisive", "mended"
MENDABLE = ("read", "compute", "relay")
LEAST = 10
"""What an error may make of a total, at least. A change takes off less than this, and three times
as much, as a wrong plan may have it, less than ``puzzle.FEWEST``, so that no total is negative."""

_CHATTER = (
    "Thank you, go on.", "One moment, please.", "I am on it.", "Understood.", "Please continue.",
    "That was quick.", "Let me have a look.", "Fine, what is next?",
)  # fmt: skip


@dataclass(frozen=True)
class Slot:
    """A step that may go wrong: what is done there, and its number."""

    kind: str
    step: int


@dataclass(frozen=True)
class Manner:
    """How talkative a team is (chances from 0 to 1) and how many goods are looked up at once."""

    talk: float
    check: float
    batch: int
    doubt: bool


class Course:
    """One playing. ``faults`` maps the number of a slot to DECISIVE or MENDED."""

    def __init__(
        self, puzzle: Puzzle, cast: Cast, manner: Manner, seed: int, faults: Mapping[int, str]
    ) -> None:
        self._puzzle, self._cast, self._manner, self._faults = puzzle, cast, manner, faults
        self._rng = random.Random(seed)
        self._wrong = random.Random(seed + 1)  # apart, so that errors move nothing else
        self._turn = 0
        self.said: list[tuple[str, str]] = []
        self.slots: list[Slot] = []
        self.total = 0
        self._goods, self._change = puzzle.goods, puzzle.change
        self._play()

    @property
    def reported(self) -> int:
        """The number that was reported in the end."""
        return self._reported

    def _play(self) -> None:
        self._plan()
        first = True
        for start in range(0, len(self._goods), self._manner.batch):
            batch = self._goods[start : start + self._manner.batch]
            found = self._look_up(batch)
            for value in found.values():
                if first:
                    self.total, first = value, False
                else:
                    self._step_on(value)
        if self._change:
            self._step_on(self._change)
        self._report()
        if self._manner.doubt:
            self._say(self._cast.client, "That is not right, our own count is another.")

    def _say(self, agent: str, text: str) -> None:
        self.said.append((agent, text))

    def _slot(self, kind: str) -> str:
        self.slots.append(Slot(kind, len(self.said)))
        mode = self._faults.get(len(self.slots) - 1, "")
        # A plan gone wrong moves the later slots.
        return "" if mode == MENDED and kind not in MENDABLE else mode

    def _chat(self, agent: str) -> None:
        if self._rng.random() < self._manner.talk / 2:
            self._say(agent, self._rng.choice(_CHATTER))

    def _plan(self) -> None:
        if self._slot("plan"):
            self._misplan()
        change = ""
        if self._change:
            word = "take off" if self._change < 0 else "add"
            change = f", {word} {abs(self._change)}"
        plan = f"Plan: look up {listed(self._goods)}, add them up{change}, report."
        self._say(self._cast.lead, plan)

    def _misplan(self) -> None:
        """Leave one of the goods out, look up another in its place, or get the change wrong."""
        wrong = self._wrong
        ways = ["swap", *(["omit"] * (len(self._goods) > 2)), *(["change"] * bool(self._change))]
        way = wrong.choice(ways)
        if way == "change":
            self._change = wrong.choice((-self._change, self._change * 2, self._change * 3))
            return
        place = wrong.randrange(len(self._goods))
        others = [name for name in GOODS if name not in self._goods]
        new = () if way == "omit" else (wrong.choice(others),)
        self._goods = self._goods[:place] + new + self._goods[place + 1 :]

    def _look_up(self, batch: tuple[str, ...]) -> dict[str, int]:
        cast = self._cast
        if cast.lead != cast.reader and self._rng.random() < self._manner.talk:
            self._say(cast.lead, f"{cast.reader}, please look up {listed(batch)}.")
        true = {name: self._puzzle.stock[name] for name in batch}
        self._say(cast.source, "; ".join(f"{name}={value}" for name, value in true.items()))
        mode, told = self._slot("read"), dict(true)
        if mode:
            name = self._wrong.choice(batch)
            told[name] = slip(self._wrong, true[name])
        quoted = ", ".join(f"{name} {value}" for name, value in told.items())
        self._say(cast.reader, f"The records say: {quoted}.")
        if mode != MENDED:
            return told
        right = ", ".join(f"{name} {value}" for name, value in true.items())
        self._mend(cast.reader, f"No, the records say: {right}. Go on with that.")
        return true

    def _mend(self, culprit: str, text: str) -> None:
        self._say(self._cast.other(self._wrong, culprit), text)

    def _step_on(self, value: int) -> None:
        """Add a number to the total: perhaps say where things stand, compute, perhaps check."""
        cast = self._cast
        solver = cast.solvers[self._turn % len(cast.solvers)]
        self._turn += 1
        if self._rng.random() < self._manner.talk:
            self._relay(solver)
        mode, total, result = self._slot("compute"), self.total, self.total + value
        if mode and self._wrong.random() < 0.4:
            total = slip(self._wrong, self.total)
            result = total + value
        elif mode:
            result = slip(self._wrong, result)
        self._say(solver, f"{added(total, value)} = {result}.")
        right = self.total + value
        self.total = result
        if mode == MENDED:
            correct = f"No, {added(right - value, value)} = {right}. Go on with {right}."
            self._mend(solver, correct)
            self.total = right
        if self._rng.random() < self._manner.check:
            self._check(right - value, value, sound=mode != DECISIVE, solver=solver)
        self._chat(cast.lead)

    def _relay(self, solver: str) -> None:
        cast = self._cast
        speaker = cast.lead
        if cast.topology == "pipeline":
            speaker = (
                cast.solvers[(self._turn - 2) % len(cast.solvers)]
                if self._turn > 1
                else (cast.reader)
            )
        elif cast.topology != "managed":
            speaker = self._rng.choice(cast.solvers)
        mode, told = self._slot("relay"), self.total
        if mode:
            told = slip(self._wrong, told)
        ends = {
            "managed": f"{solver}, please go on.",
            "pipeline": f"Over to {solver}.",
            "debate": "Does anybody object?",
            "peers": "Who takes the next one?",
        }
        self._say(speaker, f"We have {told} so far. {ends[cast.topology]}")
        if mode == MENDED:
            self._mend(speaker, f"No, we have {self.total} so far. Go on with {self.total}.")
        else:
            self.total = told

    def _check(self, total: int, value: int, *, sound: bool, solver: str) -> None:
        """Approve the last computation with or without repeating it, or wrongly correct it."""
        cast, explicit = self._cast, self._rng.random() < 0.5
        checker = cast.checker if cast.checker != solver else cast.other(self._rng, solver)
        wrongly = self._slot("check")
        if not sound:
            # Who waves an error through isn't the one who made it.
            self._say(checker, "Looks good to me.")
        elif wrongly:
            wrong = slip(self._wrong, total + value)
            self._say(checker, f"No, {added(total, value)} = {wrong}. Go on with {wrong}.")
            self.total = wrong
        elif explicit:
            self._say(checker, f"I get the same: {added(total, value)} = {total + value}.")
        else:
            self._say(checker, "Looks good to me.")

    def _report(self) -> None:
        number = slip(self._wrong, self.total) if self._slot("report") else self.total
        self._reported = number
        self._say(self._cast.reporter, f"The answer is {number}.")


def added(total: int, value: int) -> str:
    """``14 + 9`` or ``14 - 9``."""
    return f"{total} {'-' if value < 0 else '+'} {abs(value)}"


def slip(rng: random.Random, number: int) -> int:
    """A number of two digits or more that looks like this one and isn't: a digit off, or two
    exchanged. ``number`` isn't negative."""
    text = str(number)
    near = {number + by for by in (-10, -2, -1, 1, 2, 10)}
    near |= {int(text[:i] + text[i + 1] + text[i] + text[i + 2 :]) for i in range(len(text) - 1)}
    return rng.choice(sorted(each for each in near if each >= LEAST and each != number))
