"""Finds the decisive error of a generated log by the wordings alone, from what inspect shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from engine.domains import Task

Said = list[tuple[int, str, str]]
"""Step, agent, text."""


@dataclass
class Ledger:
    """What the log has established so far, and the steps that are wrong and not put right."""

    goods: list[str]
    change: int
    records: dict[str, int] = field(default_factory=dict)
    quoted: dict[str, int] = field(default_factory=dict)
    total: int | None = None
    before: int = 0
    used: int = 0
    wrong: list[tuple[str, int]] = field(default_factory=list)

    def now(self) -> int:
        return self.quoted[self.goods[0]] if self.total is None else self.total

    def operand(self) -> int:
        """The number that the computation under way has to add."""
        return self.quoted[self.goods[self.used]] if self.used < len(self.goods) else self.change

    def flag(self, kind: str, step: int, bad: bool) -> None:
        if bad:
            self.wrong.append((kind, step))

    def mend(self, kind: str) -> None:
        if self.wrong and self.wrong[-1][0] == kind:
            self.wrong.pop()


def solve(question: str, said: Said) -> tuple[str, int]:
    """The responsible agent and the decisive step. Raises LookupError where not exactly one step
    is wrong, and for a question it doesn't know."""
    asked = re.fullmatch(
        r"How many \w+ of (.+) are there in all at .*?(?:, (minus|plus) (\d+) that were .+)?\?",
        question,
    )
    if asked is None:
        raise LookupError(question)
    change = int(asked[3] or 0) * (-1 if asked[2] == "minus" else 1)
    ledger = Ledger(names(asked[1]), change)
    for step, _, text in said:
        read(ledger, step, text)
    if len(ledger.wrong) != 1:
        raise LookupError(f"{ledger.wrong} in {said}")
    decisive = ledger.wrong[0][1]
    return next(agent for step, agent, _ in said if step == decisive), decisive


def read(ledger: Ledger, step: int, text: str) -> None:
    if plan := re.match(
        r"Plan: look up (.+), add them up(?:, (take off|add) (\d+))?, report", text
    ):
        goods = names(plan[1])
        change = int(plan[3] or 0) * (-1 if plan[2] == "take off" else 1)
        ledger.flag("plan", step, (goods, change) != (ledger.goods, ledger.change))
        ledger.goods, ledger.change = goods, change
    elif re.match(r"\w+=\d", text):
        ledger.records |= {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", text)}
    elif re.search(r"records say: ", text):
        quoted = {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", text)}
        if text.startswith("No"):
            ledger.mend("read")
        ledger.flag("read", step, any(ledger.records[name] != n for name, n in quoted.items()))
        ledger.quoted |= quoted
    elif stand := re.match(r"(No, w|W)e have (\d+) so far", text):
        if text.startswith("No"):
            ledger.total = ledger.before
            ledger.mend("relay")
        ledger.flag("relay", step, int(stand[2]) != ledger.now())
        ledger.before, ledger.total = ledger.now(), int(stand[2])
    elif computed := re.match(r"(No, )?(\d+) ([+-]) (\d+) = (\d+)", text):
        compute(ledger, step, computed)
    elif answer := re.match(r"The answer is (\d+)", text):
        ledger.flag("report", step, int(answer[1]) != ledger.now())


def compute(ledger: Ledger, step: int, computed: re.Match[str]) -> None:
    mends, sign = bool(computed[1]), -1 if computed[3] == "-" else 1
    total, value, result = int(computed[2]), sign * int(computed[4]), int(computed[5])
    if not mends:
        ledger.before = ledger.now()
        ledger.used += 1
    right = (total, value) == (ledger.before, ledger.operand()) and total + value == result
    if mends and right:
        ledger.mend("compute")
    ledger.flag("compute", step, not right)
    ledger.total = result


def names(text: str) -> list[str]:
    return re.findall(r"\w+", text.replace(" and ", ", "))


def said_in(task: Task) -> Said:
    """The whole log of a task, as inspect would show it."""
    texts = task.private["texts"]
    return [(s["step"], s["agent"], texts[str(s["step"])]) for s in task.public["steps"]]
