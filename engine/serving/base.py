"""What the engine asks of whoever serves checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kernel.contract import ChatModel

Progress = Callable[[str], None]
"""Told in a few words what is being waited for."""


def silent(_: str) -> None:
    """Progress that nobody watches."""


class Server(Protocol):
    """An endpoint that serves checkpoints. Use it as an async context manager or by start/stop."""

    name: str

    @property
    def fingerprint(self) -> str:
        """All of the backend that a completion may depend on; part of the journal's key."""
        ...

    @property
    def parallel(self) -> int:
        """How many requests it takes at once; more wait inside the client, in order."""
        ...

    async def start(self, progress: Progress = silent) -> None:
        """Ready to answer. Raises ModelError with the cause and where the log is."""
        ...

    async def stop(self) -> None:
        """End every process of its own. May be called twice, and without a start."""
        ...

    def model(self, checkpoint: Path, digest: str) -> ChatModel:
        """The endpoint of one checkpoint, a folder whose files the store has verified against
        ``digest``. Its ``complete`` raises ModelUnavailable when other weights answer."""
        ...
