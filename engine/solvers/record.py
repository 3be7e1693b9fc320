"""An agent's session as a trajectory: the gateway's transcript and the world's record, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.llm.wire import answer, objects
from kernel.contract import Message
from kernel.trajectory import Event, Requests

Line = Mapping[str, Any]


def events(transcript: Path, world: Sequence[Event]) -> list[Event]:
    """What a trajectory's events are, from both records by their times."""
    said = [json.loads(line) for line in _lines(transcript)]
    both = sorted([*_said(said), *((e["at"], e) for e in world)], key=lambda pair: pair[0])
    turn, found = 0, []
    for _, event in both:
        if event["kind"] in ("exec", "call"):
            event = {name: value for name, value in event.items() if name != "at"}
            event = {"kind": event["kind"], "turn": turn, **event}
        else:
            turn = event["turn"] + 1
        found.append(event)
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.is_file() else []


def _said(lines: Sequence[Line]) -> Iterator[tuple[float, Event]]:
    packer, sent = Requests(), dict[int, list[Any]]()
    turns: dict[int, int] = {}
    for line in lines:
        call = int(line.get("call", -1))
        if line["event"] == "request":
            before = sent.get(line["follows"], []) if line["follows"] is not None else []
            sent[call] = [*before[: line["kept"]], *line["new"]]
            turns[call] = len(turns)
            yield line["at"], packer.pack(turns[call], list(_messages(sent[call])), [])
        elif line["event"] == "reply" and call in turns:
            yield line["at"], _reply(turns[call], line["reply"])


def _reply(turn: int, items: Any) -> Event:
    said = answer(objects(items))
    message: Message = {"role": "assistant", "content": said.text}
    if said.calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function",
             "function": {"name": c.name, "arguments": c.arguments}}
            for c in said.calls
        ]  # fmt: skip
    return {"kind": "reply", "turn": turn, "message": message, "violation": ""}


def _messages(items: Sequence[Any]) -> Iterator[Message]:
    """Chat messages of a request by either API; a call or a result is a message of its own."""
    for item in objects(list(items)):
        kind = item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            yield {"role": "assistant", "content": "", "tool_calls": [call]}
        elif kind in ("function_call_output", "custom_tool_call_output"):
            said = item.get("output")
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": _text(said)}
        elif "role" in item:
            yield {**item, "content": _text(item.get("content"))}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in objects(content))
