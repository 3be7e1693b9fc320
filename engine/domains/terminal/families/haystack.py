"""Needles in very long outputs: a program prints tens of megabytes, a few lines of them matter."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from engine.domains.terminal.families.words import NAMES, THINGS, sentence
from engine.domains.terminal.problem import Family, Problem

GRADER = """
import json
from pathlib import Path

facts = json.loads(Path("/grader/facts.json").read_text())
try:
    given = json.loads(Path("/app/answers.json").read_text())
except (OSError, ValueError) as error:
    given = {}
    print("answers.json can't be read:", error)
right = 0
for number, wanted in facts["answers"].items():
    value = given.get(number) if isinstance(given, dict) else None
    good = type(value) is type(wanted) and value == wanted
    right += good
    print("question", number + ":", "right" if good else "missing" if value is None else "wrong")
print(json.dumps({"score": right / len(facts["answers"])}))
"""

JOURNAL = """\
#!/usr/bin/env python3
# Prints the whole journal of the hall, oldest line first.
import json, os, sys, zlib

book = json.loads(zlib.decompress(open(os.path.join(sys.path[0], "journal.dat"), "rb").read()))
special, plain, state = dict(book["special"]), book["plain"], book["seed"]
part = []
try:
    for number in range(book["lines"]):
        day, second = divmod(number * book["every"], 86400)
        state = (state * 1103515245 + 12345) % 2147483648
        line = special.get(number) or plain[(state >> 8) % len(plain)]
        part.append(f"day {day:03d} {second:05d}s {line}")
        if len(part) == 4000:
            print("\\n".join(part))
            part = []
    print("\\n".join(part), flush=True)
except BrokenPipeError:
    os._exit(0)
"""

INSTRUCTION = """\
/app/journal prints the journal of a machine hall, oldest line first. A line is the day, the \
second of the day, the unit, a level (INFO, WARN or ALARM) and a message. Find out:
{questions}

Write answers.json: an object with the question's number as key ("1", "2", ...) and the answer as \
value, a text or a whole number as asked."""


class Needle(NamedTuple):
    """What is asked, the lines in the order they must stand in, the answer, and awk rules that put
    it, as JSON, into the variable ``@``."""

    asked: str
    lines: list[str]
    answer: str | int
    awk: str


def _ticket(rng: random.Random) -> str:
    return "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=8))


def _alarm(rng: random.Random, unit: str, other: str, thing: str) -> Needle:
    """Only one of several lines that look alike: the others are drills, or another unit's."""
    ticket = _ticket(rng)
    lines = [
        f"{unit} ALARM {thing} stuck (drill), ticket {_ticket(rng)}",
        f"{other} ALARM {thing} stuck, ticket {_ticket(rng)}",
        f"{unit} ALARM {thing} stuck, ticket {ticket}",
        f"{unit} WARN {thing} stuck, ticket {_ticket(rng)}",
    ]
    rng.shuffle(lines)
    asked = f"the ticket (a text) of the alarm '{thing} stuck' of {unit}, which was no drill."
    return Needle(asked, lines, ticket, f'/ {unit} ALARM {thing} stuck, / {{@ = "\\"" $NF "\\""}}')


def _resets(rng: random.Random, unit: str, other: str, thing: str) -> Needle:
    count = rng.randrange(4, 30)
    lines = [f"{unit} INFO {thing} reset by {rng.choice(NAMES)}" for _ in range(count)]
    lines += [f"{other} INFO {thing} reset by {rng.choice(NAMES)}"] * rng.randrange(1, 9)
    lines += [f"{unit} INFO {thing} not reset by {rng.choice(NAMES)}"] * rng.randrange(1, 9)
    rng.shuffle(lines)
    asked = f"how often (a whole number) the {thing} of {unit} was reset."
    return Needle(asked, lines, count, f"/ {unit} INFO {thing} reset by / {{@ += 1}}")


def _last(rng: random.Random, unit: str, other: str, thing: str) -> Needle:
    """The last reading before an event, after which there are more."""
    readings = [rng.randrange(100, 999) for _ in range(rng.randrange(5, 12))]
    cut = rng.randrange(1, len(readings) - 1)
    lines = [f"{unit} INFO {thing} reads {value} units" for value in readings]
    lines.insert(cut, f"{unit} WARN {thing} shut down")
    lines.insert(rng.randrange(len(lines)), f"{other} WARN {thing} shut down")
    asked = f"what (a whole number) the {thing} of {unit} read last before it was shut down."
    awk = (
        f"/ {unit} INFO {thing} reads / && !@end {{@ = $(NF - 1)}} "
        f"/ {unit} WARN {thing} shut down/ {{@end = 1}}"
    )
    return Needle(asked, lines, readings[cut - 1], awk)


def _sum(rng: random.Random, unit: str, other: str, thing: str) -> Needle:
    amounts = [rng.randrange(1, 90) for _ in range(rng.randrange(4, 16))]
    lines = [f"{unit} INFO {thing} took {amount} litres" for amount in amounts]
    lines += [f"{unit} INFO {thing} gave {rng.randrange(1, 90)} litres" for _ in amounts[::2]]
    lines += [f"{other} INFO {thing} took {rng.randrange(1, 90)} litres" for _ in amounts[::2]]
    rng.shuffle(lines)
    asked = f"how many litres (a whole number) the {thing} of {unit} took in all."
    return Needle(asked, lines, sum(amounts), f"/ {unit} INFO {thing} took / {{@ += $(NF - 1)}}")


KINDS: tuple[Callable[[random.Random, str, str, str], Needle], ...] = (
    _alarm,
    _resets,
    _last,
    _sum,
)


def _book(rng: random.Random, needles: list[Needle], megabytes: int) -> bytes:
    """What the program prints from: plain lines to draw from, and the special ones by number."""
    plain = []
    for number in range(400):
        level = "WARN" if number % 9 == 0 else "INFO"
        plain.append(f"unit-{rng.randrange(1, 60):02d} {level} {sentence(rng)} {sentence(rng)}")
    count = megabytes * 10**6 // 125  # about the length of a line
    special: dict[int, str] = {}
    for needle in needles:
        free = rng.sample(range(count), len(needle.lines) + len(special))
        places = sorted([place for place in free if place not in special][: len(needle.lines)])
        special.update(zip(places, needle.lines, strict=True))
    book: dict[str, Any] = {"special": sorted(special.items()), "plain": plain, "lines": count}
    book |= {"seed": rng.randrange(2**31), "every": rng.randrange(3, 40)}
    return zlib.compress(json.dumps(book).encode())


def make(rng: random.Random, difficulty: int) -> Problem:
    """As many needles as the difficulty says, in 18 to 42 MB."""
    things, units = rng.sample(THINGS, difficulty), rng.sample(range(60, 100), 2 * difficulty)
    kinds = [*rng.sample(KINDS, len(KINDS)), rng.choice(KINDS)]
    needles = [
        kind(rng, f"unit-{units.pop()}", f"unit-{units.pop()}", thing)
        for kind, thing in zip(kinds, things, strict=False)
    ]
    questions = "\n".join(f"{number}. {needle.asked}" for number, needle in enumerate(needles, 1))
    rules = "\n".join(needle.awk.replace("@", f"n{n}") for n, needle in enumerate(needles, 1))
    shown = ' ", " '.join(f'"\\"{n}\\": " n{n}' for n in range(1, difficulty + 1))
    return Problem(
        instruction=INSTRUCTION.format(questions=questions),
        files={
            "journal": JOURNAL.encode(),
            "journal.dat": _book(rng, needles, 12 + 6 * difficulty),
        },
        programs=("journal",),
        grader=GRADER,
        facts={"answers": {str(number): needle.answer for number, needle in enumerate(needles, 1)}},
        solution=(
            "set -o pipefail\n"
            f'./journal | awk \'{rules}\nEND {{print "{{" {shown} "}}"}}\' > answers.json'
        ),
    )


FAMILY = Family("haystack", make)
