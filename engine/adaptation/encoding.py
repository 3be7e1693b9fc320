"""Chat samples as token ids and labels: what is taught is conditioned on exactly the prompt that a
rollout's request rendered to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """One taught assistant turn: the request's prompt and the reply with its end token."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]


def encode(tokenizer: Any, sample: Mapping[str, Any], max_length: int) -> list[Encoded]:
    """The sequences of one sample. Turns share a sequence as long as each prompt continues the
    one before token by token; otherwise (a template that rewrites its history) each stands alone.
    Turns longer than ``max_length`` tokens are left out, so the list may be empty."""
    sequences: list[Encoded] = []
    ids: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()
    for turn in taught_turns(tokenizer, sample):
        if len(turn.prompt) + len(turn.reply) > max_length:
            continue
        if turn.prompt[: len(ids)] != ids:
            sequences.append(Encoded(ids, labels))
            ids = labels = ()
        labels += (IGNORED,) * (len(turn.prompt) - len(ids)) + turn.reply
        ids = turn.prompt + turn.reply
    return [*sequences, Encoded(ids, labels)] if ids else sequences


def taught_turns(tokenizer: Any, sample: Mapping[str, Any]) -> list[Turn]:
    """The turns that ``train_turns`` marks. Raises ValueError where the marks don't fit the
    messages or the template doesn't open a reply as it shows one."""
    messages, tools = sample["messages"], sample["tools"]
    places = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    marks = sample["train_turns"]
    if len(marks) != len(places):
        raise ValueError(f"{len(marks)} train_turns for {len(places)} assistant messages")
    return [
        _turn(tokenizer, messages[: place + 1], tools)
        for place, taught in zip(places, marks, strict=True)
        if taught
    ]


def _turn(tokenizer: Any, messages: Sequence[Any], tools: Sequence[Any]) -> Turn:
    prompt = render(tokenizer, messages[:-1], tools, reply_next=True)
    whole = render(tokenizer, messages, tools, reply_next=False)
    if not whole.startswith(prompt):
        raise ValueError("the chat template shows a finished reply unlike the one it opens")
    reply, end = whole[len(prompt) :], tokenizer.eos_token
    cut = reply.rfind(end)
    reply = reply[: cut + len(end)] if cut >= 0 else reply.rstrip() + end
    return Turn(tuple(token_ids(tokenizer, prompt)), tuple(token_ids(tokenizer, reply)))
