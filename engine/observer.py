"""Progress for a person: bars with time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LINE_EVERY_S = 10.0


class Bar(Protocol):
    """One piece of long work."""

    def advance(self, steps: int = 1, note: str = "") -> None: ...


class Observer(Protocol):
    """Where a stage says what it does. The loop itself prints nothing."""

    def say(self, text: str) -> None: ...

    def bar(self, title: str, total: int) -> AbstractContextManager[Bar]: ...


class Silent:
    """Says nothing: for ``--json`` and for tests."""

    def say(self, text: str) -> None:
        del text

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Bar]:
        del title, total
        yield _NoBar()


class _NoBar:
    def advance(self, steps: int = 1, note: str = "") -> None:
        del steps, note


class Terminal:
    """Rich bars on stderr where it is a terminal, a line every ten seconds where it isn't."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()

    def say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Bar]:
        if not self._live:
            line_bar = _LineBar(title, total, self.say)
            yield line_bar
            line_bar.finish()
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("  {task.description:<34}", markup=False),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with Progress(*columns, console=Console(stderr=True)) as progress:
            yield _RichBar(progress, progress.add_task(title, total=total, note=""))


def paced(say: Callable[[str], None]) -> Callable[[str], None]:
    """``say`` for a wait that is told of every second: a line every ten seconds. What isn't a wait
    is said at once."""
    last = time.monotonic()

    def tell(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if text.startswith("waiting") and now - last < _LINE_EVERY_S:
            return
        last = now
        say(f"  {text}")

    return tell


class _LineBar:
    def __init__(self, title: str, total: int, say: Callable[[str], None]) -> None:
        self._title, self._total, self._say = title, total, say
        self._done, self._note = 0, ""
        self._start = self._last = time.monotonic()

    def advance(self, steps: int = 1, note: str = "") -> None:
        self._done += steps
        self._note = note or self._note
        now = time.monotonic()
        if now - self._last >= _LINE_EVERY_S and self._done < self._total:
            self._last = now
            left = (now - self._start) / max(self._done, 1) * (self._total - self._done)
            self._print(f"about {left:.0f} s left")

    def finish(self) -> None:
        self._print(f"{time.monotonic() - self._start:.0f} s")

    def _print(self, when: str) -> None:
        note = f"  {self._note}" if self._note else ""
        self._say(f"  {self._title:<34} {self._done}/{self._total}  {when}{note}")


class _RichBar:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def advance(self, steps: int = 1, note: str = "") -> None:
        fields: dict[str, Any] = {"note": note} if note else {}
        self._progress.update(self._task, advance=steps, **fields)
