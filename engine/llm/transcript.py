"""What an agent and its model said to each other, as JSON lines.

A client sends the whole conversation each time; only what is new in it is written: ``kept`` is how
many messages of call ``follows`` a request began with.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engine.llm.wire import history

_LARGEST = 64 * 2**20
_CONVERSATIONS = 16
_LONG = ("instructions", "tools")


class _Past(NamedTuple):
    call: int
    digests: list[bytes]


class Transcript:
    """Appends to ``path``; ``clean`` takes out what mustn't stand there. Stops at 64 MiB."""

    def __init__(self, path: Path, clean: Callable[[str], str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._clean = path, clean
        self._past: deque[_Past] = deque(maxlen=_CONVERSATIONS)
        self._said: dict[str, bytes] = {}
        self._size = path.stat().st_size if path.exists() else 0
        self._calls = 0

    def asked(self, api: str, body: Mapping[str, Any]) -> int:
        """Write a request; returns the number of its call."""
        self._calls += 1
        messages = history(body)
        digests = [_digest(message) for message in messages]
        follows, kept = self._common(digests)
        self._past.append(_Past(self._calls, digests))
        fields = {k: v for k, v in body.items() if k not in ("messages", "input", *_LONG)}
        line = {"event": "request", "call": self._calls, "api": api, **self._changed(body)}
        self._write(
            {**line, "fields": fields, "follows": follows, "kept": kept, "new": messages[kept:]}
        )
        return self._calls

    def answered(self, call: int, reply: list[Any], **facts: Any) -> None:
        """Write what came back, as far as it came."""
        self._write({"event": "reply", "call": call, **facts, "reply": reply})

    def note(self, event: str, **facts: Any) -> None:
        """Write anything else that happened."""
        self._write({"event": event, **facts})

    def _common(self, digests: list[bytes]) -> tuple[int | None, int]:
        follows, kept = None, 0
        for past in self._past:
            same = 0
            for old, new in zip(past.digests, digests, strict=False):
                if old != new:
                    break
                same += 1
            if same and same >= kept:
                follows, kept = past.call, same
        return follows, kept

    def _changed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Instructions and tools, where they aren't what was written last."""
        changed = {}
        for name in _LONG:
            digest = _digest(body.get(name))
            if name in body and self._said.get(name) != digest:
                self._said[name], changed[name] = digest, body[name]
        return changed

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._size > _LARGEST:
            return
        whole = {"at": round(time.time(), 3), **line}
        data = (self._clean(json.dumps(whole, ensure_ascii=False)) + "\n").encode(
            "utf-8", "replace"
        )
        self._size += len(data)
        if self._size > _LARGEST:
            data = b'{"event": "cut", "why": "the transcript has reached 64 MiB"}\n'
        with self._path.open("ab") as stream:
            stream.write(data)


def _digest(value: Any) -> bytes:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
