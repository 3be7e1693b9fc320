"""How long a harness has been busy itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Clock:
    """The harness's own time: stands still while at least one completion is awaited."""

    limit_s: float
    started: float = field(default_factory=time.monotonic)
    waited: float = 0.0
    open: int = 0
    since: float = 0.0

    def own_s(self) -> float:
        now = time.monotonic()
        return now - self.started - self.waited - (now - self.since if self.open else 0.0)

    @contextmanager
    def paused(self) -> Iterator[None]:
        if not self.open:
            self.since = time.monotonic()
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1
            if not self.open:
                self.waited += time.monotonic() - self.since

    async def expire(self) -> None:
        while (left := self.limit_s - self.own_s()) > 0:
            await asyncio.sleep(max(left, 0.01))
