"""The simulated user of the service family, who speaks turn by turn, by rules.

They go by what is named to them (a trip's number, an amount in EUR, a question for the postcode),
so that any wording of an agent's is understood alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Trip:
    number: str
    route: str
    date: str
    departs: str
    price: int
    seats: int


@dataclass(frozen=True)
class Request:
    """One thing that the customer wants of a booking; a trip suits them by ``after`` and ``most``
    (the earliest departure and the highest price), which they say when a proposal fails them."""

    kind: Literal["move", "cancel", "delay"]
    code: str
    postcode: str
    opening: str
    route: str = ""
    date: str = ""
    after: str = ""
    most: int = 0


class Customer:
    """Says one request after the other, each once the one before was dealt with."""

    def __init__(self, requests: Sequence[Request], trips: Mapping[str, Trip]) -> None:
        self._requests, self._trips = list(requests), trips
        self._begun = False
        self._asked: Request | None = None
        self.postcodes: dict[str, str] = {}
        self.agreed: set[tuple[str, str]] = set()
        """(code, trip's number or amount) of what they said yes to."""

    def hear(self, text: str, dealt_with: bool) -> str:
        """The reply; ``dealt_with``: something was done about the request they asked last."""
        if self._asked is None or dealt_with:
            return self._next()
        replies = []
        if re.search(r"post|zip|identi|verif", text, re.IGNORECASE):
            self.postcodes[self._asked.code] = self._asked.postcode
            replies.append(f"The postcode is {self._asked.postcode}.")
        if self._asked.kind == "move":
            replies += self._proposals(text, self._asked)
            if re.search(r"what time|when|prefer|earliest|budget", text, re.IGNORECASE):
                replies.append(_wish(self._asked))
        if self._asked.kind == "cancel":
            for pair in re.findall(r"(\d+)(?:\.00)? ?(?:EUR|euro|€)|(?:EUR|€) ?(\d+)", text):
                amount = pair[0] or pair[1]
                self.agreed.add((self._asked.code, amount))
                replies.append(f"{amount} EUR back is all right. Please go ahead.")
        return " ".join(replies) or f"As I said: {self._asked.opening}"

    def _next(self) -> str:
        greeting = "" if self._begun else "Hello. "
        if self._begun and self._requests:
            greeting = "Thanks. There is one more thing. "
        self._begun = True
        if not self._requests:
            self._asked = None
            return "That was all. Goodbye."
        self._asked = self._requests.pop(0)
        return greeting + self._asked.opening

    def _proposals(self, text: str, request: Request) -> list[str]:
        replies = []
        for number in dict.fromkeys(re.findall(r"T\d{3}", text)):
            trip = self._trips.get(number)
            if trip is None or (trip.route, trip.date) != (request.route, request.date):
                replies.append(f"{number} isn't the journey that I want.")
            elif trip.departs < request.after:
                replies.append(f"{number} is too early for me. {_wish(request)}")
            elif trip.price > request.most:
                replies.append(f"{number} is too expensive for me. {_wish(request)}")
            else:
                self.agreed.add((request.code, number))
                replies.append(f"{number} suits me. Yes, please.")
        return replies

    def open_code(self) -> str:
        """The booking that the request they asked last is about; '' after the last."""
        return self._asked.code if self._asked else ""


def _wish(request: Request) -> str:
    return (
        f"It must leave at {request.after} or later and the ticket may cost {request.most} EUR "
        "at most."
    )
