"""The record of one rollout, written by the host alone.

Events are compact: a request stores how many leading messages it shares with the request before
it (``keep``) and the messages after those; its tools only when they changed. Kinds:

request  turn, keep, messages, [tools]
reply    turn, message, violation, prompt_tokens, completion_tokens, latency_s, finish_reason,
         [reasoning]
refused  turn, code, error                     no completion came (context, unreadable request)
call     turn, name, arguments, observation    ``turn``: requests made before it
exec     turn, command, stdout, stderr, return_code
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from kernel.contract import Message, ToolSchema

SCHEMA = 1
ENDS = (
    "answered",
    "no_answer",
    "turn_limit",
    "context_overflow",
    "timeout",
    "harness_error",
    "model_error",
)

Event = dict[str, Any]


@dataclass(frozen=True)
class Trajectory:
    """``end`` is one of ENDS. ``answered`` says that an answer was recorded (or that the world
    wants none and ``run`` returned), whatever happened after it; ``error`` then tells of that.
    ``turns`` are completions, ``violations`` the turns that broke the interface, ``wall_s`` the
    whole time with the model's.
    """

    events: tuple[Event, ...]
    end: str
    answer: Any | None
    turns: int
    violations: int
    prompt_tokens: int
    completion_tokens: int
    wall_s: float
    error: str = ""
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "events": list(self.events)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Trajectory:
        """Raises ValueError for another schema or missing fields."""
        if value.get("schema") != SCHEMA:
            raise ValueError(
                f"a trajectory of schema {value.get('schema')!r}; this version reads {SCHEMA}"
            )
        names = {field.name for field in fields(cls)}
        if missing := names - set(value):
            raise ValueError(f"a trajectory without {', '.join(sorted(missing))}")
        known = {name: value[name] for name in names}
        return cls(**{**known, "events": tuple(value["events"])})


class Requests:
    """Packs successive requests into events."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._tools: list[ToolSchema] = []

    def pack(self, turn: int, messages: list[Message], tools: list[ToolSchema]) -> Event:
        keep = 0
        for old, new in zip(self._messages, messages, strict=False):
            if old != new:
                break
            keep += 1
        event: Event = {"kind": "request", "turn": turn, "keep": keep, "messages": messages[keep:]}
        if tools != self._tools:
            event["tools"] = tools
        self._messages, self._tools = messages, tools
        return event


class Turn(NamedTuple):
    """One completion: what was sent, what came, the violation ('' for none), and whether every
    tool call in it was carried out as the model wrote it (white space apart)."""

    number: int
    messages: list[Message]
    tools: list[ToolSchema]
    reply: Message
    violation: str
    carried_out: bool
    reasoning: str = ""


def messages(trajectory: Trajectory) -> list[Turn]:
    """The completed turns in the order of their requests, with whole histories."""
    replies = {event["turn"]: event for event in trajectory.events if event["kind"] == "reply"}
    turns: list[Turn] = []
    sent: list[Message] = []
    tools: list[ToolSchema] = []
    for event in trajectory.events:
        if event["kind"] != "request":
            continue
        sent = sent[: event["keep"]] + event["messages"]
        tools = event.get("tools", tools)
        reply = replies.get(event["turn"])
        if reply is not None:
            done = _carried_out(trajectory, event["turn"], reply["message"])
            said, thought = reply["message"], reply.get("reasoning", "")
            turns.append(Turn(event["turn"], sent, tools, said, reply["violation"], done, thought))
    return turns


def _carried_out(trajectory: Trajectory, turn: int, message: Message) -> bool:
    calls = (event for event in trajectory.events if event["kind"] == "call")
    made = {
        _spelled(call["name"], json.dumps(call["arguments"], ensure_ascii=False))
        for call in calls
        if call["turn"] == turn + 1  # requests made before it
    }
    asked = (call["function"] for call in message.get("tool_calls") or ())
    return all(_spelled(each["name"], str(each["arguments"])) in made for each in asked)


def _spelled(name: str, arguments: str) -> str:
    try:
        arguments = json.dumps(json.loads(arguments), sort_keys=True, ensure_ascii=False)
    except ValueError:
        return ""
    return "".join(f"{name} {arguments}".split())


class Conversation(NamedTuple):
    """One growing history with its last reply; ``train`` has a flag per assistant message: whether
    it is taught. What the model thought before a reply is that message's ``reasoning_content``: no
    later request showed it again.

    Taught is what the model wrote in this rollout, without a violation, and the harness carried
    out as written. Where the harness mended the rollout's last turn, the reply is the call as it
    was carried out: that is what the verifier judged, while the model's own words were a mistake.
    """

    messages: list[Message]
    tools: list[ToolSchema]
    train: list[bool]


def conversations(trajectory: Trajectory) -> list[Conversation]:
    """A trajectory as training conversations.

    A turn whose request extends an earlier turn's request and reply continues that conversation;
    any other (a compacted history, a side question) starts one of its own.
    """
    open_: list[list[Turn]] = []
    for turn in messages(trajectory):
        for chain in open_:
            last = chain[-1]
            whole = [*last.messages, last.reply]
            if turn.messages[: len(whole)] == whole and turn.tools == last.tools:
                chain.append(turn)
                break
        else:
            open_.append([turn])
    made = [_conversation(chain) for chain in open_]
    # Of several conversations none alone led to the last call.
    mended = _mended(trajectory, open_[0][-1]) if len(open_) == 1 else None
    if mended is None:
        return made
    [only] = made
    return [only._replace(messages=[*only.messages[:-1], mended], train=[*only.train[:-1], True])]


def _mended(trajectory: Trajectory, last: Turn) -> Message | None:
    """The last turn's reply as the harness carried it out; None where it did so as written, or
    did something else (another tool, two calls)."""
    if last.carried_out and not last.violation:
        return None
    calls = [event for event in trajectory.events if event["kind"] == "call"]
    asked = [call["function"]["name"] for call in last.reply.get("tool_calls") or ()]
    if not calls or calls[-1]["turn"] != last.number + 1 or asked not in ([], [calls[-1]["name"]]):
        return None
    arguments = json.dumps(calls[-1]["arguments"], ensure_ascii=False)
    function = {"name": calls[-1]["name"], "arguments": arguments}
    call = {"id": f"call_{last.number}", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _conversation(chain: list[Turn]) -> Conversation:
    last = chain[-1]
    history = [*last.messages, last.reply]
    for turn in chain:
        if turn.reasoning:
            place = len(turn.messages)
            history[place] = {**history[place], "reasoning_content": turn.reasoning}
    good = {len(turn.messages): not turn.violation and turn.carried_out for turn in chain}
    train = [
        good.get(index, False)
        for index, message in enumerate(history)
        if message.get("role") == "assistant"
    ]
    return Conversation(history, last.tools, train)
