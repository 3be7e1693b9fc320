"""Which mechanisms of a harness were triggered, read from the host's own record of a rollout.

Nothing is asked of the harness, whose code may change in every version. The rules:

truncation  the model got a clipped tool output: of an output of 400 characters or more, a message
            of a later request has the first 120 but not the whole (white space left out).
compaction  earlier turns were removed: an assistant message of the request before is in no later
            request, and the request goes on with no other conversation (a side question's history
            may go).
review      the result was checked in a fresh context: after an admissible turn whose calls, if
            any, were not carried out, a request without any assistant message states the task
            again, in other messages than the first request had.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernel.contract import Message
from kernel.trajectory import Event, Trajectory

MECHANISMS = ("truncation", "compaction", "review")
_LONG, _EDGE = 400, 120
_TASK = 200
_LEFT_OUT = re.compile(r"\[the record leaves out (\d+) characters\]")
"""What stands in the record for the middle of a very long text (kernel.episode)."""


@dataclass(frozen=True)
class _Request:
    """``place`` among the events, the whole history, and the part that is new to it."""

    place: int
    turn: int
    messages: Sequence[Message]
    new: Sequence[Message]


def triggered(trajectory: Trajectory) -> frozenset[str]:
    """The mechanisms of a rollout."""
    requests = list(_requests(trajectory))
    found = {
        "truncation": _truncated(trajectory, requests),
        "compaction": _compacted(trajectory, requests),
        "review": any(_reviews(trajectory, requests, index) for index in range(1, len(requests))),
    }
    return frozenset(name for name, is_so in found.items() if is_so)


def _requests(trajectory: Trajectory) -> Iterator[_Request]:
    sent: list[Message] = []
    for place, event in enumerate(trajectory.events):
        if event["kind"] == "request":
            sent = sent[: event["keep"]] + event["messages"]
            yield _Request(place, event["turn"], sent, event["messages"])


def _truncated(trajectory: Trajectory, requests: Sequence[_Request]) -> bool:
    shown = [(r.place, [_shown(_text(m)) for m in r.new if m.get("role") != "assistant"])
             for r in requests]  # fmt: skip
    for place, event in enumerate(trajectory.events):
        output = _shown(_output(event))
        if len(output.squeezed) < _LONG:
            continue
        for later, texts in shown:
            if later > place and any(_clipped(output, text) for text in texts):
                return True
    return False


class _Shown(NamedTuple):
    """A text as the record has it: its length before the record shortened it, whether it did, and
    the text without white space."""

    length: int
    shortened: bool
    squeezed: str


def _shown(text: str) -> _Shown:
    missing = [int(number) for number in _LEFT_OUT.findall(text)]
    return _Shown(len(text) + sum(missing), bool(missing), "".join(text.split()))


def _clipped(output: _Shown, text: _Shown) -> bool:
    """Whether a message's text has the beginning of an output, but not the whole. Of texts whose
    middle is missing in the record alone, the lengths tell."""
    if output.squeezed[:_EDGE] not in text.squeezed:
        return False
    if output.shortened or text.shortened:
        return text.length < output.length
    return output.squeezed not in text.squeezed


def _output(event: Event) -> str:
    if event["kind"] == "exec":
        return str(event["stdout"])
    return str(event["observation"]) if event["kind"] == "call" else ""


def _compacted(trajectory: Trajectory, requests: Sequence[_Request]) -> bool:
    said = [[_mark(m) for m in r.messages if m.get("role") == "assistant"] for r in requests]
    for index in range(1, len(requests)):
        after = {mark for later in said[index:] for mark in later}
        gone = [mark for mark in said[index - 1] if mark not in after]
        if (
            gone
            and not _reviews(trajectory, requests, index)
            and not _resumes(trajectory, requests, index)
        ):
            return True
    return False


def _resumes(trajectory: Trajectory, requests: Sequence[_Request], index: int) -> bool:
    """Whether a request goes on with an earlier conversation than the one just before it."""
    replies = {e["turn"]: e["message"] for e in trajectory.events if e["kind"] == "reply"}
    messages = list(requests[index].messages)
    for earlier in requests[: index - 1]:
        whole = [*earlier.messages, replies.get(earlier.turn)]
        if messages[: len(whole)] == whole:
            return True
    return False


def _reviews(trajectory: Trajectory, requests: Sequence[_Request], index: int) -> bool:
    first, before, now = requests[0], requests[index - 1], requests[index]
    between = trajectory.events[before.place : now.place]
    kinds = {event["kind"] for event in between}
    if "reply" not in kinds or kinds & {"exec", "call"}:
        return False
    if any(event.get("violation") for event in between):
        return False
    if any(m.get("role") == "assistant" for m in now.messages) or now.messages == first.messages:
        return False
    tasks = [_squeezed(m)[-_TASK:] for m in first.messages if m.get("role") == "user"]
    text = "".join(_squeezed(m) for m in now.messages)
    return bool(tasks) and tasks[-1] in text


def _squeezed(message: Message) -> str:
    return "".join(_text(message).split())


def _text(message: Message) -> str:
    content: Any = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _mark(message: Message) -> str:
    return json.dumps(message, sort_keys=True)
