"""The desk of the service family: the bookings, what can be done to them, what broke a rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.domains.terminal.families.service_customer import Customer, Request, Trip
from kernel.contract import ToolSchema


@dataclass(frozen=True)
class Booking:
    """``delay`` is by how many minutes its trip was late, once it has run. Money in EUR."""

    code: str
    name: str
    postcode: str
    fare: str
    trip: str
    date: str
    price: int
    delay: int = 0
    status: str = "booked"
    refund: int = 0
    voucher: int = 0


def _tool(name: str, about: str, **arguments: str) -> ToolSchema:
    """A function whose arguments are given as name = "type: meaning"."""
    split = {key: value.split(": ", 1) for key, value in arguments.items()}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {
                "type": "object",
                "properties": {k: {"type": t, "description": d} for k, (t, d) in split.items()},
                "required": list(arguments),
                "additionalProperties": False,
            },
        },
    }


CODE = "string: The booking's code."
TOOLS = (
    _tool("say_to_user", "Say something; gives what they reply.", text="string: What to say."),
    _tool("look_up_booking", "A booking as it stands.", code=CODE),
    _tool(
        "find_trips",
        "The trips of a route on a day.",
        route="string: As a booking's trip has it, such as 'Ulm-Graz'.",
        date="string: YYYY-MM-DD.",
    ),
    _tool("change_booking", "Put it on another trip.", code=CODE, trip="string: Its number."),
    _tool("cancel_booking", "Cancel it.", code=CODE, refund="integer: EUR paid back."),
    _tool("give_voucher", "Make up for a delay.", code=CODE, amount="integer: EUR."),
    _tool(
        "decline",
        "Note that what the user wants of a booking is turned down.",
        code=CODE,
        rule="integer: The number of the rule that forbids it.",
    ),
)


class Desk:
    """``engine.domains.terminal.live.Live`` of one dialogue. What breaks a rule is done all the
    same, and noted."""

    tools: tuple[ToolSchema, ...] = TOOLS

    def __init__(
        self, bookings: Sequence[Booking], trips: Sequence[Trip], requests: Sequence[Request]
    ) -> None:
        self._bookings = {booking.code: booking for booking in bookings}
        self._trips = {trip.number: trip for trip in trips}
        self._customer = Customer(requests, self._trips)
        self._acted: set[str] = set()
        self._declined: list[list[Any]] = []
        self._violations: list[str] = []

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        known: dict[str, Callable[..., str]] = {
            "say_to_user": self._say,
            "find_trips": self._find,
            "look_up_booking": self._look_up,
            "change_booking": self._change,
            "cancel_booking": self._cancel,
            "give_voucher": self._voucher,
            "decline": self._decline,
        }
        code = arguments.get("code")
        if code is not None and code not in self._bookings:
            return f"there is no booking {code}"
        return known[name](**arguments)

    def arrivals(self, commands: int) -> Mapping[str, bytes]:
        return {}

    def outcome(self) -> Mapping[str, Any]:
        return {
            "bookings": {code: asdict(booking) for code, booking in self._bookings.items()},
            "declined": self._declined,
            "violations": self._violations,
        }

    # --- the tools ----------------------------------------------------------------------------

    def _say(self, text: str) -> str:
        for booking in self._bookings.values():
            if booking.postcode in text and booking.postcode not in self._said():
                self._violations.append(f"the postcode of {booking.code} was given away")
        dealt_with = self._customer.open_code() in self._acted
        self._acted.clear()
        return self._customer.hear(text, dealt_with)

    def _look_up(self, code: str) -> str:
        booking = self._bookings[code]
        trip = self._trips[booking.trip]
        return json.dumps({**asdict(booking), "route": trip.route, "departs": trip.departs})

    def _find(self, route: str, date: str) -> str:
        found = [asdict(t) for t in self._trips.values() if (t.route, t.date) == (route, date)]
        return json.dumps(found) if found else f"no trips {route} on {date}"

    def _change(self, code: str, trip: str) -> str:
        if trip not in self._trips:
            return f"there is no trip {trip}"
        if not self._trips[trip].seats:
            return f"trip {trip} is full"
        self._act(code, agreed=trip)
        new = self._trips[trip]
        self._bookings[code] = replace(
            self._bookings[code], trip=trip, date=new.date, price=new.price
        )
        return f"{code} is on trip {trip} now"

    def _cancel(self, code: str, refund: int) -> str:
        self._act(code, agreed=str(refund))
        self._bookings[code] = replace(self._bookings[code], status="cancelled", refund=refund)
        return f"{code} is cancelled, {refund} EUR are paid back"

    def _voucher(self, code: str, amount: int) -> str:
        self._act(code)
        voucher = self._bookings[code].voucher + amount
        self._bookings[code] = replace(self._bookings[code], voucher=voucher)
        return f"a voucher of {amount} EUR was sent for {code}"

    def _decline(self, code: str, rule: int) -> str:
        self._acted.add(code)
        self._declined.append([code, rule])
        return f"noted: declined for {code} by rule {rule}"

    def _act(self, code: str, agreed: str | None = None) -> None:
        self._acted.add(code)
        if self._customer.postcodes.get(code) != self._bookings[code].postcode:
            self._violations.append(f"{code} was touched without its postcode")
        if agreed is not None and (code, agreed) not in self._customer.agreed:
            self._violations.append(f"{code} was changed to {agreed} without the user's yes")

    def _said(self) -> set[str]:
        return set(self._customer.postcodes.values())
