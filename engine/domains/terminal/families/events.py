"""A shift in a warehouse: orders come in, are changed and cancelled while the work goes on, and
questions must be answered in time. What counts is the list of orders at the end of the shift."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engine.domains.terminal.families.events_live import LONGEST_WAIT, Mail, Shift
from engine.domains.terminal.families.words import NAMES, THINGS, sentence
from engine.domains.terminal.problem import Family, Problem

GRADER = """
import csv, json, re
from pathlib import Path

facts = json.loads(Path("/grader/facts.json").read_text())
try:
    with Path("/app/orders.csv").open(newline="") as stream:
        rows = [tuple(row) for row in csv.reader(stream)]
except (OSError, UnicodeDecodeError, csv.Error) as error:
    print("orders.csv can't be read:", error)
    rows = []
wanted = [tuple(row) for row in facts["rows"]]
listed = 0.0
if rows and rows != [tuple(row) for row in facts["before"]]:
    both = len(set(rows) & set(wanted)) / len(set(rows) | set(wanted))
    listed = 1.0 if rows == wanted else both ** 2 * 0.9
print("orders.csv:", "right" if listed == 1 else "not as it should be at the end of the shift")
parts = [listed, listed]
for message, (number, due) in facts["questions"].items():
    tick, text = facts["live"]["replies"].get(message, (None, ""))
    said = re.findall(r"\\d+", text)
    good = said == [str(number)] and tick <= due
    parts.append(float(good))
    print("the answer to", message + ":", "right" if good else "missing, wrong or late")
print(json.dumps({"score": sum(parts) / len(parts)}))
"""

SOLVER = r"""
import csv, glob, re

team = set(open("team.txt").read().split())
rows = {r[0]: r[1:] for r in csv.reader(open("before.csv")) if r[0] != "order"}
limits, order, extra, done = {}, None, None, {}
for path in sorted(glob.glob("inbox/*.txt")):
    head, text = open(path).read().split("\n\n", 1)
    sender = re.search(r"^From: (\S+)", head, re.M)[1]
    if sender not in team:
        continue
    if m := re.search(r"New order (\S+): (\d+) x (\w+) for (\w+)\.", text):
        rows[m[1]] = [m[4], m[3], m[2]]
    elif m := re.search(r"Order (\S+) is (\d+) pieces now", text):
        rows[m[1]][2] = m[2]
    elif m := re.search(r"Order (\S+) is cancelled", text):
        done[m[1]] = rows.pop(m[1])
    elif m := re.search(r"Order (\S+) was cancelled by mistake", text):
        rows[m[1]] = done.pop(m[1])
    elif m := re.search(r"no more than (\d+) pieces of (\w+) in one order", text):
        limits[m[2]] = int(m[1])
    elif "sorted by customer" in text:
        order = lambda row: (row[1], row[0])
    elif "a column packer" in text:
        extra = re.search(r"packer, with '(\w+)'", text)[1]
listed = []
for number, (customer, thing, count) in rows.items():
    count = min(int(count), limits.get(thing, int(count)))
    listed.append([number, customer, thing, str(count)] + ([extra] if extra else []))
listed.sort(key=order or (lambda row: row[0]))
with open("orders.csv", "w", newline="") as stream:
    head = ["order", "customer", "item", "pieces"] + (["packer"] if extra else [])
    csv.writer(stream).writerows([head] + listed)
"""

INSTRUCTION = """\
You are on a shift in a warehouse that ends at tick {end}. A command takes one tick; the tool wait \
lets more pass. Messages come in as /app/inbox/mNNN.txt (before your next command) until the shift \
is over. Keep /app/orders.csv, which holds the open orders: at the end of the shift it must say \
what all messages that came in make of it, whenever they came. New orders are added, a cancelled \
order is taken out, the rows stay sorted by order unless a message says otherwise, and what a \
message says about the list or about limits holds for all orders, those before and after it; of \
two that contradict each other the later counts. Only people in team.txt may change anything; \
leave what others want undone. Answer each question of a team member with the tool reply: one \
number and nothing else, as the list stands with all messages up to the question, within \
{patience} ticks of its coming in."""


@dataclass
class Draft:
    """A shift while it is drawn: what the messages so far say. ``orders`` maps an order's number to
    [customer, item, pieces]; ``answer`` is that of the latest question."""

    rng: random.Random
    team: list[str]
    orders: dict[str, list[Any]] = field(default_factory=dict)
    cancelled: dict[str, list[Any]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    packer: str = ""
    by_customer: bool = False
    answer: int | None = None
    number: int = 100

    def new(self) -> str:
        rng = self.rng
        self.number += rng.randrange(1, 9)
        number = f"A{self.number}"
        self.orders[number] = [rng.choice(NAMES), rng.choice(THINGS[:8]), rng.randrange(2, 60)]
        customer, thing, count = self.orders[number]
        return f"New order {number}: {count} x {thing} for {customer}."

    def change(self) -> str:
        number, count = self.rng.choice(sorted(self.orders)), self.rng.randrange(61, 90)
        self.orders[number][2] = count
        return f"Order {number} is {count} pieces now."

    def cancel(self) -> str:
        number = self.rng.choice(sorted(self.orders))
        self.cancelled[number] = self.orders.pop(number)
        return f"Order {number} is cancelled."

    def restore(self) -> str:
        if not self.cancelled:
            return self.new()
        number = self.rng.choice(sorted(self.cancelled))
        self.orders[number] = self.cancelled.pop(number)
        return f"Order {number} was cancelled by mistake. Please put it back as it was."

    def limit(self) -> str:
        thing, most = self.rng.choice(sorted(self.orders.values()))[1], self.rng.randrange(5, 20)
        self.limits[thing] = most
        return f"We are short: no more than {most} pieces of {thing} in one order. Cut the rest."

    def sort(self) -> str:
        self.by_customer = True
        return "The list must be sorted by customer from now on, and by order within a customer."

    def column(self) -> str:
        self.packer = self.rng.choice(NAMES)
        return f"The list needs a column packer, with '{self.packer}' in every row, at the end."

    def ask(self) -> str:
        thing = self.rng.choice(sorted(self.orders.values()))[1]
        self.answer = sum(int(row[3]) for row in self.rows()[1:] if row[2] == thing)
        return f"How many pieces of {thing} are in open orders, all together?"

    def outsider(self) -> str:
        """Looks like work, from somebody who may not give any."""
        number = self.rng.choice(sorted(self.orders))
        return self.rng.choice(
            (
                f"Order {number} is cancelled.",
                f"Order {number} is {self.rng.randrange(9)} pieces now.",
            )
        )

    def news(self) -> str:
        return f"No action needed: {sentence(self.rng)}"

    def rows(self) -> list[list[str]]:
        """The list as it must be."""
        listed = [
            [number, who, thing, str(min(count, self.limits.get(thing, count)))]
            for number, (who, thing, count) in self.orders.items()
        ]
        listed.sort(key=lambda row: (row[1], row[0]) if self.by_customer else (row[0],))
        if self.packer:
            listed = [[*row, self.packer] for row in listed]
        head = ["order", "customer", "item", "pieces", *(["packer"] if self.packer else [])]
        return [head, *listed]


def _kinds(rng: random.Random, difficulty: int) -> list[str]:
    """What comes in, in this order: from the third difficulty on also what changes the list as a
    whole, and what has to be ignored."""
    kinds = ["new", "change", "cancel", "new"]
    if difficulty >= 2:
        kinds += ["outsider", "ask", "news"]
    if difficulty >= 3:
        kinds += ["limit", "restore", "new"]
    if difficulty >= 4:
        kinds += ["sort", "change", "ask"]
    if difficulty >= 5:
        kinds += ["column", "cancel", "outsider", "ask", "limit"]
    rng.shuffle(kinds)
    return [*kinds, rng.choice(("new", "change"))]


def _text(draft: Draft, kind: str) -> str:
    body: str = getattr(draft, kind)()
    sender = draft.rng.choice(draft.team)
    if kind == "outsider":
        sender = draft.rng.choice([name for name in NAMES if name not in draft.team])
    return f"From: {sender}@warehouse.example\nTo: shift\n\n{sentence(draft.rng)} {body}\n"


def _csv(rows: list[list[str]]) -> bytes:
    return "".join(",".join(row) + "\r\n" for row in rows).encode()


def make(rng: random.Random, difficulty: int) -> Problem:
    draft = Draft(rng, rng.sample(NAMES, 5))
    for _ in range(3 + 2 * difficulty):
        draft.new()
    before, patience = draft.rows(), 14 - difficulty
    team = [f"{name}@warehouse.example" for name in draft.team]
    tick, mails = 2, []
    questions: dict[str, list[int]] = {}
    calls: list[tuple[str, Mapping[str, Any]]] = []
    for number, kind in enumerate(_kinds(rng, difficulty), rng.randrange(1, 30)):
        tick += rng.randrange(2, 7)
        name, draft.answer = f"m{number:03d}", None
        mails.append(Mail(tick, name, _text(draft, kind)))
        calls.append(("wait", {"ticks": LONGEST_WAIT}))
        if draft.answer is not None:
            questions[name] = [draft.answer, tick + patience]
            calls.append(("reply", {"message": name, "text": str(draft.answer)}))
    end = tick + rng.randrange(2, 9)
    calls += [
        ("wait", {"ticks": LONGEST_WAIT}),
        ("bash", {"command": f"python3 - <<'PY'{SOLVER}PY"}),
    ]
    return Problem(
        instruction=INSTRUCTION.format(end=end, patience=patience),
        files={"orders.csv": _csv(before), "team.txt": "\n".join([*team, ""]).encode()},
        grader=GRADER,
        facts={"rows": draft.rows(), "before": before, "questions": questions},
        solution="cp orders.csv before.csv",
        live=partial(Shift, tuple(mails), end),
        solution_calls=tuple(calls),
    )


FAMILY = Family("events", make)
