"""The text that a checkpoint is shown for a list of messages, by its own chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.serving.wire import rendered_form
from kernel.contract import ContextLengthExceeded, Message, Sampling, ToolSchema


def tokenizer_of(checkpoint: Path) -> Any:
    """The checkpoint's tokenizer (imports transformers, seconds the first time)."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint)


def render(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[ToolSchema],
    reply_next: bool,
    reasoning: str = "",
    switches: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """The template's text for ``messages``, as the embedded server renders it; ``reply_next``
    adds the opening of the assistant's turn. ``reasoning`` is what the model thought before the
    last message, an assistant's, where the template shows that; ``switches`` are the template's."""
    shown = rendered_form(messages)
    if reasoning:
        shown[-1]["reasoning_content"] = reasoning
    text: str = tokenizer.apply_chat_template(
        shown,
        tools=list(tools) or None,
        add_generation_prompt=reply_next,
        tokenize=False,
        **switches,
    )
    return text


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Tokens of rendered text: the template has written the special ones already."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def context_length(checkpoint: Path, limit: int) -> int:
    """The smaller of ``limit`` and what the model was made for, in tokens."""
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    text = config.get("text_config", config)  # models that see keep it beside their vision's
    own = text.get("max_position_embeddings")
    return min(limit, own) if isinstance(own, int) else limit


_LONGEST_TOKEN = 64  # characters; no prompt averages more


class ContextGuard:
    """Refuses prompts over ``limit`` tokens, for servers that don't.

    A byte is at least a token's worth, so short prompts pass without loading the tokenizer; those
    far too long are refused without it, since rendering and counting them takes long.
    """

    def __init__(self, checkpoint: Path, limit: int) -> None:
        self._checkpoint, self._limit = checkpoint, limit
        self._tokenizer: Any = None

    def check(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> None:
        """Raises ContextLengthExceeded where prompt and ``max_tokens`` don't fit."""
        room = self._limit - sampling.max_tokens
        sent = json.dumps([rendered_form(messages), list(tools)], ensure_ascii=False)
        if len(sent.encode()) + 32 * len(messages) + 64 <= room:
            return
        if len(sent) > _LONGEST_TOKEN * room:
            raise ContextLengthExceeded(
                f"the prompt has {len(sent)} characters; {room} tokens fit (context {self._limit} "
                f"less max_tokens {sampling.max_tokens})"
            )
        if self._tokenizer is None:
            self._tokenizer = tokenizer_of(self._checkpoint)
        length = len(token_ids(self._tokenizer, render(self._tokenizer, messages, tools, True)))
        if length > room:
            raise ContextLengthExceeded(
                f"the prompt has {length} tokens; {room} fit (context {self._limit} less "
                f"max_tokens {sampling.max_tokens})"
            )
