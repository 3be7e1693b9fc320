"""Chat samples as token ids and labels: what is taught is conditioned on exactly the prompt that a
rollout's request rendered to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from engine.serving.prompt import render, token_ids

IGNORED = -100
"""The label of a token without loss (torch's cross entropy skips it)."""


@dataclass(frozen=True)
class Encoded:
    """One training sequence; ``labels`` are ``ids`` where the model is taught, else IGNORED."""

    ids: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Turn:
    """One taught assistant turn: the request's prompt and the reply with its end token, as tokens
    and as the text they are of."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    asked: str
    said: str

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.reply)


def encode(tokenizer: Any, sample: Mapping[str, Any], max_length: int) -> list[Encoded]:
    """The sequences of one sample, less its turns longer than ``max_length`` tokens."""
    return [joined(turns) for turns in sequences(taught_turns(tokenizer, sample), max_length)]


def sequences(turns: Sequence[Turn], max_length: int) -> list[list[Turn]]:
    """Turns share a sequence as long as each prompt continues the one before token by token;
    otherwise (a template that rewrites its history) each stands alone. Turns longer than
    ``max_length`` tokens are left out, so the list may be empty."""
    made: list[list[Turn]] = []
    for turn in turns:
        if turn.length > max_length:
            continue
        if not made or not _continues(made[-1][-1], turn):
            made.append([])
        made[-1].append(turn)
    return made


def _continues(before: Turn, turn: Turn) -> bool:
    ids = before.prompt + before.reply
    return turn.prompt[: len(ids)] == ids and turn.asked.startswith(before.asked + before.said)


def joined(turns: Sequence[Turn]) -> Encoded:
    """The turns of one sequence as tokens."""
    ids: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()
    for turn in turns:
        labels += (IGNORED,) * (len(turn.prompt) - len(ids)) + turn.reply
        ids = turn.prompt + turn.reply
    return Encoded(ids, labels)


def taught_turns(
    tokenizer: Any, sample: Mapping[str, Any], switches: Mapping[str, Any] = MappingProxyType({})
) -> list[Turn]:
    """The turns that ``train_turns`` marks. Raises ValueError where the marks don't fit the
    messages or the template doesn't open a reply as it shows one."""
    messages, tools = sample["messages"], sample["tools"]
    places = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    marks = sample["train_turns"]
    if len(marks) != len(places):
        raise ValueError(f"{len(marks)} train_turns for {len(places)} assistant messages")
    return [
        _turn(tokenizer, messages[: place + 1], tools, switches)
        for place, taught in zip(places, marks, strict=True)
        if taught
    ]


def _turn(
    tokenizer: Any, messages: Sequence[Any], tools: Sequence[Any], switches: Mapping[str, Any]
) -> Turn:
    prompt = render(tokenizer, messages[:-1], tools, reply_next=True, switches=switches)
    thought = messages[-1].get("reasoning_content", "")
    whole = render(tokenizer, messages, tools, False, thought, switches)
    if not whole.startswith(prompt):
        raise ValueError("the chat template shows a finished reply unlike the one it opens")
    reply, end = whole[len(prompt) :], tokenizer.eos_token
    cut = reply.rfind(end)
    reply = reply[: cut + len(end)] if cut >= 0 else reply.rstrip() + end
    prompt_ids, reply_ids = (tuple(token_ids(tokenizer, text)) for text in (prompt, reply))
    return Turn(prompt_ids, reply_ids, prompt, reply)
