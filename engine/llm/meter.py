"""Counts every call to a language model as it happens, and refuses those over a cap."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine.errors import BudgetSpent, ConfigError
from engine.llm.ledger import SCHEMA, entries, ledger_path
from engine.llm.lines import Lines
from engine.llm.usage import Caps, Price, Usage
from engine.params import Params

_OUTSTANDING = Usage(calls=1, unanswered=1)


@dataclass(frozen=True)
class Ticket:
    """A call that may be made, and when it began (monotonic seconds)."""

    call: str
    model: str
    began: float = field(compare=False)


class Meter:
    """What a round's calls used, by role. What an earlier process of the round used counts too.

    Calls in flight are in every count, so a cap on calls is exact; caps on tokens, money and
    seconds let the calls in flight end. May be used from several threads.
    """

    def __init__(
        self,
        path: Path,
        round_number: int,
        prices: Mapping[str, Price],
        caps: Caps | None = None,
        roles: Mapping[str, Caps] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._round, self._prices = round_number, dict(prices)
        self._caps, self._roles = caps or Caps(), dict(roles or {})
        self._clock, self._lock = clock, threading.Lock()
        self._spent: dict[str, Usage] = {}
        self._before: dict[tuple[str, str, str], Usage] = {}
        for entry in entries(path):
            if entry.round == round_number:
                self._add(entry.role, entry.usage)
                whose = entry.role, entry.session, entry.work
                self._before[whose] = self._before.get(whose, Usage()) + entry.usage
        self._ledger = Lines(path)

    def account(
        self, role: str, session: str = "", caps: Caps | None = None, work: str = ""
    ) -> Account:
        """Counts one session's calls; ``caps`` are its own. They count from here, but where
        ``work`` names what the session does, what a killed try of it used counts too."""
        before = self._before.get((role, session, work), Usage()) if work else Usage()
        return Account(self, role, session, caps or Caps(), work, before)

    def spent(self, role: str | None = None) -> Usage:
        """What the round used so far, in all or by one role."""
        with self._lock:
            return self._sum(role)

    def close(self) -> None:
        """Close the file; the meter takes no more calls."""
        self._ledger.close()

    def _sum(self, role: str | None) -> Usage:
        return sum((u for r, u in self._spent.items() if role in (None, r)), Usage())

    def _add(self, role: str, usage: Usage) -> None:
        self._spent[role] = self._spent.get(role, Usage()) + usage

    def _admit(self, account: Account, model: str) -> Ticket:
        with self._lock:
            self._refuse(account, model)
            ticket = Ticket(secrets.token_hex(8), model, self._clock())
            self._ledger.write(
                {
                    "schema": SCHEMA,
                    "call": ticket.call,
                    "at": round(time.time(), 3),
                    "round": self._round,
                    "role": account.role,
                    "session": account.session,
                    "model": model,
                    **({"work": account.work} if account.work else {}),
                }
            )
            self._add(account.role, _OUTSTANDING)
            account.usage += _OUTSTANDING
        return ticket

    def _refuse(self, account: Account, model: str) -> None:
        role = account.role
        for caps, used, whose, key in (
            (self._caps, self._sum(None), "round", "llm.caps"),
            (self._roles.get(role, Caps()), self._sum(role), "role", f"{role}.caps"),
            (account.caps, account.before + account.usage, "session", ""),
        ):
            if caps.usd is not None and model not in self._prices:
                raise ConfigError(
                    f"{role}: a cap in USD needs a price of {model!r}; set llm.prices.{model}"
                )
            reached = caps.reached(used)
            if reached:
                raise BudgetSpent(role, account.session, whose, *reached, key)

    def _charge(
        self, account: Account, ticket: Ticket, tokens: tuple[int, int, int] | None, guessed: bool
    ) -> Usage:
        seconds = self._clock() - ticket.began
        used = Usage(calls=1, unanswered=1, seconds=seconds)
        if tokens is not None:
            price = self._prices.get(ticket.model)
            used = Usage(
                1,
                *tokens,
                seconds=seconds,
                usd=price.usd(*tokens) if price else 0.0,
                estimated=int(guessed),
                unpriced=int(price is None),
            )
        with self._lock:
            self._ledger.write({"call": ticket.call, "usage": asdict(used)})
            more = used + Usage(calls=-1, unanswered=-1)
            self._add(account.role, more)
            account.usage += more
        return used


class Account:
    """The calls of one session of a role. ``usage`` is what they used so far, ``before`` what
    killed tries of its ``work`` used; caps are on both."""

    def __init__(
        self, meter: Meter, role: str, session: str, caps: Caps, work: str, before: Usage
    ) -> None:
        self._meter = meter
        self.role, self.session, self.caps, self.work = role, session, caps, work
        self.usage, self.before = Usage(), before

    def admit(self, model: str) -> Ticket:
        """Before a call. Raises BudgetSpent where a cap leaves none, and ConfigError where money is
        capped and ``model`` has no price."""
        return self._meter._admit(self, model)

    def charge(
        self, ticket: Ticket, prompt: int, cached: int, completion: int, *, guessed: bool = False
    ) -> Usage:
        """After a call that was answered; ``cached`` tokens are part of ``prompt``."""
        return self._meter._charge(self, ticket, (prompt, cached, completion), guessed)

    def fail(self, ticket: Ticket) -> Usage:
        """After a call that brought no answer and costs nothing."""
        return self._meter._charge(self, ticket, None, False)


def open_meter(root: Path, params: Params, round_number: int) -> Meter:
    """The meter of a round of the run in ``root``, with the prices and caps of its parameters."""
    return Meter(
        ledger_path(root, params.run),
        round_number,
        {model: price.price() for model, price in params.llm.prices.items()},
        params.llm.caps.caps(),
        {
            "curator": params.curator.caps.caps(),
            "audit": params.audit.caps.caps(),
            "editors": params.editors.caps.caps(),
            "inheritance": params.inheritance.caps.caps(),
        },
    )
