"""The written rules of the service family's desk, and their amendments."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, timedelta
from typing import NamedTuple

from engine.domains.terminal.families.words import sentence


class Terms(NamedTuple):
    """The figures of the rules: days, percent, minutes."""

    change_days: int
    cancel_days: int
    flex: int
    standard: int
    delay: int
    delay_percent: int
    long_delay: int
    long_percent: int

    @classmethod
    def draw(cls, rng: random.Random) -> Terms:
        """Any."""
        return cls(
            change_days=rng.randrange(1, 6),
            cancel_days=rng.randrange(3, 9),
            flex=rng.randrange(80, 100),
            standard=rng.randrange(40, 75),
            delay=rng.randrange(30, 60),
            delay_percent=rng.randrange(15, 30),
            long_delay=rng.randrange(90, 150),
            long_percent=rng.randrange(45, 70),
        )


def rules(terms: Terms) -> dict[str, str]:
    """Name -> what it says."""
    return {
        "identity": "Tell nothing of a booking and touch nothing in it before the user has named "
        "the postcode that it is booked under. Name no postcode yourself. If they name another "
        "one, decline.",
        "agreement": "Change a booking only to a trip that you have named to the user by its "
        "number and that they said yes to. Cancel one only when you have named the refund ('57 "
        "EUR') and they said yes to it.",
        "basic": "A booking of the basic fare can't be changed: decline. Cancelling it is no "
        "matter for this desk.",
        "change": f"A standard booking can be changed until {terms.change_days} days before its "
        "trip, a flex one at any time before its day.",
        "refund": f"On cancelling, flex gets {terms.flex} % of the price back. Standard gets "
        f"{terms.standard} % back if the trip is {terms.cancel_days} or more days from today; "
        "later, decline. Round down to whole EUR.",
        "delay": f"Who came {terms.delay} minutes late or more gets a voucher of "
        f"{terms.delay_percent} % of the price, from {terms.long_delay} minutes on "
        f"{terms.long_percent} %. Round down to whole EUR. Less than that: decline.",
        "tone": "Be brief and polite.",
        "lost": "Lost property is no matter for this desk.",
    }


def policies(
    rng: random.Random, terms: Terms, numbers: Mapping[str, int], today: date, difficulty: int
) -> dict[str, bytes]:
    """The rules; from difficulty 3 on as they were, with amendments of which one has begun."""
    amended = []
    if difficulty >= 3:
        old = terms._replace(standard=terms.standard - 15, delay_percent=terms.delay_percent + 8)
        since, until = today - timedelta(days=12), today + timedelta(days=9)
        refund, delay = numbers["refund"], numbers["delay"]
        changes = (
            (since, refund, "what standard gets", old.standard, terms.standard),
            (since, delay, "the smaller voucher", old.delay_percent, terms.delay_percent),
            (until, refund, "what flex gets", terms.flex, terms.flex - 20),
        )
        amended = [
            f"From {day} on, in rule {rule}, {what} is {new} % instead of {before} %."
            for day, rule, what, before, new in changes
        ]
        rng.shuffle(amended)
        terms = old
    texts = rules(terms)
    lines = [f"{number}. {texts[name]}" for name, number in numbers.items()]
    files = {"policies/rules.md": "# Rules of the desk\n\n" + "\n".join(lines) + "\n"}
    if amended:
        files["policies/amendments.md"] = "# Amendments\n\n- " + "\n- ".join(amended) + "\n"
    files["policies/about.md"] = f"# About us\n\n{sentence(rng)} {sentence(rng)}\n"
    return {name: text.encode() for name, text in files.items()}
