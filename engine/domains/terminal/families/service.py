"""A dialogue with a customer of a railway: rules in files, bookings behind tools, a customer who
says what they want bit by bit. The bookings at the end are graded, and broken rules cost."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from functools import partial
from typing import Any

from engine.domains.terminal.families.service_customer import Request, Trip
from engine.domains.terminal.families.service_live import Booking, Desk
from engine.domains.terminal.families.service_rules import Terms, policies, rules
from engine.domains.terminal.families.words import NAMES
from engine.domains.terminal.problem import Family, Problem

GRADER = """
import json
from pathlib import Path

facts = json.loads(Path("/grader/facts.json").read_text())
live, right = facts["live"], 0
for code, wanted in facts["items"].items():
    declined = [rule for other, rule in live["declined"] if other == code]
    good = live["bookings"][code] == wanted["booking"] and declined == wanted["declined"]
    right += good
    print("booking", code + ":", "right" if good else "wrong")
faults = list(live["violations"])
for code, booking in live["bookings"].items():
    if code not in facts["items"] and booking != facts["others"][code]:
        faults.append(code + " was changed, and nobody asked for it")
for fault in faults:
    print("against the rules:", fault)
print(json.dumps({"score": max(0.0, right / len(facts["items"]) - 0.25 * len(faults))}))
"""

TOWNS = ("Ulm", "Graz", "Lyon", "Bern", "Turin", "Ghent", "Brno", "Malmo")
KINDS = ("move", "cancel", "delay", "stranger", "basic", "late", "short")


@dataclass
class Case:
    """A dialogue while it is drawn. ``calls`` solve it, ``wanted`` is what must come of it."""

    rng: random.Random
    today: date
    terms: Terms
    rules: Mapping[str, int]
    coy: bool
    bookings: list[Booking] = field(default_factory=list)
    trips: list[Trip] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    wanted: dict[str, dict[str, Any]] = field(default_factory=dict)

    def trip(self, route: str, day: date, departs: str, price: int, seats: int = 9) -> Trip:
        taken = {trip.number for trip in self.trips}
        number = self.rng.choice([f"T{n}" for n in range(100, 1000) if f"T{n}" not in taken])
        self.trips.append(Trip(number, route, day.isoformat(), departs, price, seats))
        return self.trips[-1]

    def book(self, fare: str, days: int, delay: int = 0) -> Booking:
        """A booking on a trip so many days from today."""
        used = {trip.route for trip in self.trips}
        routes = (f"{a}-{b}" for a in TOWNS for b in TOWNS if a != b)
        route = self.rng.choice([route for route in routes if route not in used])
        day = self.today + timedelta(days=days)
        trip = self.trip(route, day, _time(self.rng, 6, 20), self.rng.randrange(21, 180))
        code = "".join(self.rng.sample("ABCDEFGHKLMNPQRSTUVWXYZ", 4)) + str(len(self.bookings))
        name, postcode = self.rng.choice(NAMES).capitalize(), str(self.rng.randrange(10000, 99999))
        booking = Booking(
            code, name, postcode, fare, trip.number, trip.date, trip.price, delay
        )  # fmt: skip
        self.bookings.append(booking)
        return booking

    def say(self, text: str) -> None:
        self.calls.append(("say_to_user", {"text": text}))

    def ask(self, request: Request) -> None:
        """The customer's next request; the solution starts on it by asking for the postcode."""
        self.requests.append(request)
        self.say("What can I do for you?" if len(self.requests) == 1 else "Anything else?")
        self.say("Which postcode is it booked under?")

    def want(self, booking: Booking, declined: str = "") -> None:
        rules = [self.rules[declined]] if declined else []
        self.wanted[booking.code] = {"booking": asdict(booking), "declined": rules}
        if declined:
            self.calls.append(("decline", {"code": booking.code, "rule": rules[0]}))


def _time(rng: random.Random, first: int, last: int) -> str:
    return f"{rng.randrange(first, last):02d}:{rng.choice((0, 10, 25, 40, 55)):02d}"


def _move(case: Case) -> None:
    """To the one trip of a day that suits; now and then to another day once that is done."""
    fare = case.rng.choice(("standard", "flex"))
    booking = case.book(fare, case.terms.change_days + case.rng.randrange(1, 20))
    again = case.coy and case.rng.random() < 0.6
    for turn in range(2 if again else 1):
        request, right = _wanted_day(case, booking, turn)
        case.ask(request)
        case.say(f"There is trip {right.number}. Shall I book it?")
        case.calls.append(("change_booking", {"code": booking.code, "trip": right.number}))
        final = {**asdict(booking), "trip": right.number, "date": right.date, "price": right.price}
    case.want(Booking(**final))


def _wanted_day(case: Case, booking: Booking, turn: int) -> tuple[Request, Trip]:
    rng, route = case.rng, next(t.route for t in case.trips if t.number == booking.trip)
    day = date.fromisoformat(booking.date) + timedelta(days=2 + 3 * turn + rng.randrange(3))
    hour, most = rng.randrange(10, 15), booking.price + rng.randrange(5, 40)
    after = f"{hour:02d}:00"
    right = case.trip(route, day, _time(rng, hour, 18), most - rng.randrange(5))
    case.trip(route, day, _time(rng, 5, hour), most - rng.randrange(5, 20))
    case.trip(route, day, _time(rng, hour, 18), most + rng.randrange(1, 30))
    case.trip(route, day, _time(rng, hour, 18), most - rng.randrange(5, 15), seats=0)
    wish = "" if case.coy else f" It must leave at {after} or later and cost {most} EUR at most."
    opening = f"I'd like to travel on {day} instead with my booking {booking.code}.{wish}"
    if turn:
        opening = f"I'm sorry, I can't on that day after all. Please make it {day} for "
        opening += f"{booking.code}.{wish}"
    code, postcode = booking.code, booking.postcode
    return Request("move", code, postcode, opening, route, right.date, after, most), right


def _cancel(case: Case) -> None:
    fare = case.rng.choice(("standard", "flex"))
    booking = case.book(fare, case.terms.cancel_days + case.rng.randrange(0, 12))
    percent = case.terms.flex if fare == "flex" else case.terms.standard
    refund = booking.price * percent // 100
    case.ask(_request("cancel", booking, "Please cancel {}; what do I get back?"))
    case.say(f"You get {refund} EUR back. Shall I cancel it?")
    case.calls.append(("cancel_booking", {"code": booking.code, "refund": refund}))
    case.want(Booking(**{**asdict(booking), "status": "cancelled", "refund": refund}))


def _delay(case: Case) -> None:
    terms, late = case.terms, case.rng.random() < 0.5
    least = terms.long_delay if late else terms.delay
    minutes = case.rng.randrange(least, least + (40 if late else terms.long_delay - least))
    booking = case.book("standard", -case.rng.randrange(1, 9), delay=minutes)
    amount = booking.price * (terms.long_percent if late else terms.delay_percent) // 100
    case.ask(_request("delay", booking, "My train was very late ({}). What do I get for that?"))
    case.calls.append(("give_voucher", {"code": booking.code, "amount": amount}))
    case.want(Booking(**{**asdict(booking), "voucher": amount}))


def _stranger(case: Case) -> None:
    """Wants something of a booking that is somebody else's."""
    booking = case.book("flex", case.rng.randrange(9, 30))
    request = _request("cancel", booking, "Cancel {}, please, I need the money today.")
    other = str(10000 + (int(booking.postcode) - 9000) % 90000)
    case.ask(Request("cancel", booking.code, other, request.opening))
    case.want(booking, declined="identity")


def _basic(case: Case) -> None:
    booking = case.book("basic", case.rng.randrange(9, 30))
    request, _ = _wanted_day(case, booking, 0)
    case.ask(request)
    case.want(booking, declined="basic")


def _late(case: Case) -> None:
    booking = case.book("standard", case.rng.randrange(1, case.terms.cancel_days))
    case.ask(_request("cancel", booking, "I won't travel, cancel {} and pay me back, please."))
    case.want(booking, declined="refund")


def _short(case: Case) -> None:
    minutes = case.rng.randrange(5, case.terms.delay)
    booking = case.book("flex", -case.rng.randrange(1, 9), delay=minutes)
    case.ask(_request("delay", booking, "The train of {} was late. I want a voucher."))
    case.want(booking, declined="delay")


def _request(kind: Any, booking: Booking, opening: str) -> Request:
    return Request(kind, booking.code, booking.postcode, opening.format(booking.code))


MAKERS = dict(zip(KINDS, (_move, _cancel, _delay, _stranger, _basic, _late, _short), strict=True))


INSTRUCTION = """\
You serve a user of a railway at the desk. Today is {today}. Talk to them with the tool \
say_to_user alone: it gives their reply, and they say nothing unless you speak. Do what they want \
with the other tools as far as the rules in /app/policies allow it; what a rule forbids, decline \
with the rule's number, once for each booking. Go on until the user says goodbye. The bookings at \
the end count; breaking a rule costs."""


def make(rng: random.Random, difficulty: int) -> Problem:
    today = date(2025, 1, 1) + timedelta(days=rng.randrange(300))
    terms = Terms.draw(rng)
    names = sorted(rules(terms))
    rng.shuffle(names)
    numbers = {name: number for number, name in enumerate(names, 1)}
    case = Case(rng, today, terms, numbers, coy=difficulty >= 2)
    for kind in rng.sample(KINDS[:3] if difficulty == 1 else KINDS, difficulty):
        MAKERS[kind](case)
    for _ in range(3):
        case.book(rng.choice(("basic", "standard", "flex")), rng.randrange(1, 40))
    others = {b.code: asdict(b) for b in case.bookings if b.code not in case.wanted}
    world = (tuple(case.bookings), tuple(case.trips), tuple(case.requests))
    return Problem(
        instruction=INSTRUCTION.format(today=today),
        files=policies(rng, terms, numbers, today, difficulty),
        grader=GRADER,
        facts={"items": case.wanted, "others": others},
        solution="cat policies/*",
        live=partial(Desk, *world),
        solution_calls=tuple(case.calls),
    )


FAMILY = Family("service", make)
