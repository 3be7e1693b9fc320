"""Prepared turns as ms-swift JSONL: rendered text, and which of it is taught.

A row is one assistant message in pieces, each with its ``loss``: what stands between the model's
own turns is a piece without. So the text, its tokens and what is taught are those of the rollouts
to the last token, whichever template the checkpoint has; ms-swift's own templates differ from
those in places (tool calls, thinking) and couldn't teach one turn and leave another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engine.adaptation.encoding import Encoded, Turn, joined
from engine.records import write_bytes
from engine.serving.prompt import token_ids


class Piece(NamedTuple):
    """Text, and whether it is taught."""

    text: str
    loss: bool


def write_rows(path: Path, sequences: Sequence[Sequence[Turn]], tokenizer: Any) -> int:
    """A row for each sequence; how many. One whose pieces' tokens aren't those of the whole (a
    tokenizer that joins across a turn's end) becomes a row for each turn."""
    rows = [row for turns in sequences for row in _rows(turns, tokenizer)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_bytes(path, text.encode())
    return len(rows)


def pieces(turns: Sequence[Turn]) -> list[Piece]:
    """What was asked and what was said, in turn."""
    made: list[Piece] = []
    seen = ""
    for turn in turns:
        made += [Piece(turn.asked[len(seen) :], False), Piece(turn.said, True)]
        seen = turn.asked + turn.said
    return made


def _rows(turns: Sequence[Turn], tokenizer: Any) -> Iterator[dict[str, Any]]:
    parts = pieces(turns)
    ids = [id for part in parts for id in token_ids(tokenizer, part.text)]
    whole: Encoded = joined(turns)
    if len(turns) > 1 and tuple(ids) != whole.ids:
        for turn in turns:
            yield from _rows([turn], tokenizer)
        return
    end = tokenizer.eos_token  # ms-swift puts it behind a row itself, taught as well
    last = parts[-1].text.removesuffix(end)
    yield {
        "messages": [
            {"role": "assistant", "content": part.text, "loss": part.loss}
            for part in [*parts[:-1], Piece(last, True)]
        ]
    }
