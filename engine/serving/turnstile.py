"""Who may ask a server now: requests for one thing at a time, and not too many."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager

Switch = Callable[[], Awaitable[None]]


class Turnstile:
    """At most ``width`` requests at once, all with the same key.

    A server that swaps checkpoints ends the requests of the one before, so another key waits until
    those in flight have ended, and those that already wait for the current key go first (a swap
    costs seconds). ``switch`` runs before the first request of a new key.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._key: Hashable = None
        self._active = 0
        self._switching = False
        self._waiting: deque[tuple[Hashable, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def enter(self, key: Hashable, switch: Switch) -> AsyncIterator[None]:
        await self._admission(key)
        try:
            if self._key != key:
                await self._switch(key, switch)
            yield
        finally:
            self._active -= 1
            self._wake()

    def forget(self) -> None:
        """The server was restarted: the next request switches again."""
        self._key = None

    async def _admission(self, key: Hashable) -> None:
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, ticket))
        self._wake()
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self._active -= 1
            self._wake()
            raise

    def _open(self, key: Hashable) -> bool:
        if self._active == 0:
            return True
        return key == self._key and not self._switching and self._active < self._width

    async def _switch(self, key: Hashable, switch: Switch) -> None:
        """Alone inside: ``_open`` lets a new key in only when nobody is."""
        self._switching, self._key = True, None
        try:
            await switch()
            self._key = key
        finally:
            self._switching = False
            self._wake()

    def _wake(self) -> None:
        while (turn := self._next()) is not None:
            self._waiting.remove(turn)
            if not turn[1].done():
                self._active += 1
                turn[1].set_result(None)

    def _next(self) -> tuple[Hashable, asyncio.Future[None]] | None:
        same = next((turn for turn in self._waiting if turn[0] == self._key), None)
        turn = same or next(iter(self._waiting), None)
        return turn if turn is not None and self._open(turn[0]) else None
