"""Replies that a round's role has paid for, so that a killed stage doesn't ask for them again.

The file is the role's transcript, too: a line an answer, with what was new in its request. Which
answer fits is told by the exact request, model and session included: whatever changes (a file, a
figure, a setting) is asked anew.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.llm import lines
from engine.llm.wire import Answer
from kernel.contract import Message, RawToolCall

SCHEMA = 1


class Answered:
    """The answers in one file. A request that is made twice gets its own answer each time."""

    def __init__(self, path: Path) -> None:
        self._kept: dict[str, deque[Answer]] = {}
        for line in lines.read(path, "key"):
            if line.get("schema") == SCHEMA:
                self._kept.setdefault(line["key"], deque()).append(_answer(line["reply"]))
        self._file = lines.Lines(path)

    def take(self, key: str) -> Answer | None:
        """The next answer to this request that an earlier process got; None where there is none."""
        kept = self._kept.get(key)
        return kept.popleft() if kept else None

    def keep(self, key: str, session: str, messages: Sequence[Message], said: Answer) -> None:
        """Keep an answer, with the messages since the one before it."""
        self._file.write(
            {
                "schema": SCHEMA,
                "key": key,
                "session": session,
                "asked": _news(messages),
                "reply": {
                    "text": said.text,
                    "calls": [[call.id, call.name, call.arguments] for call in said.calls],
                },
            }
        )

    def close(self) -> None:
        self._file.close()


def answers_path(root: Path, run: str, round_number: int, role: str) -> Path:
    """Where the answers that a role got in a round are kept."""
    return root / ".coevo" / "answers" / run / f"r{round_number:03d}-{role}.jsonl"


def request_key(session: str, api: str, request: Mapping[str, Any]) -> str:
    """The exact request: messages, tools, model, effort, by the API that it goes to."""
    whole = json.dumps([session, api, request], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def _news(messages: Sequence[Message]) -> list[Message]:
    own = [n for n, message in enumerate(messages) if message.get("role") == "assistant"]
    return list(messages[own[-1] + 1 :] if own else messages)


def _answer(reply: Mapping[str, Any]) -> Answer:
    return Answer(reply["text"], tuple(RawToolCall(*call) for call in reply["calls"]))
