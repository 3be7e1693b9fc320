"""A data set made ready for training: tokenised, and what is too long known before it starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.adaptation.dataset import read_samples
from engine.adaptation.encoding import Turn, sequences, taught_turns
from engine.errors import TrainerError
from kernel.contract import RequestRefused

_ROUND = 256


@dataclass(frozen=True)
class Prepared:
    """``sequences`` of turns to teach, out of ``samples`` conversations that have any; ``skipped``
    have none. ``over`` taught turns end beyond the limit, the farthest at ``longest`` tokens."""

    sequences: Sequence[Sequence[Turn]]
    samples: int
    skipped: int
    turns: int
    over: int
    longest: int
    limit: int

    @property
    def warning(self) -> str:
        """What a person should know before the training; '' where nothing is too long."""
        if not self.over:
            return ""
        return (
            f"{self.over} of {self.turns} taught turns end beyond adaptation.max_length "
            f"{self.limit} tokens (the longest at {self.longest}) and are left out; "
            f"adaptation.max_length: {_up(self.longest)} would keep them"
        )


def prepare(
    tokenizer: Any, dataset: Path, max_length: int, switches: Mapping[str, Any]
) -> Prepared:
    """Tokenise ``dataset``; ``switches`` are the chat template's, as in the rollouts.

    Raises TrainerError where a sample can't be read by the checkpoint's template, or where no turn
    fits ``max_length`` tokens.
    """
    made: list[list[Turn]] = []
    lengths: list[int] = []
    samples = skipped = 0
    for number, sample in enumerate(read_samples(dataset), start=1):
        try:
            turns = taught_turns(tokenizer, sample, switches)
        except (ValueError, KeyError, RequestRefused) as error:
            raise TrainerError(f"{dataset}:{number}: {error}") from None
        fitting = sequences(turns, max_length)
        lengths += [turn.length for turn in turns]
        made += fitting
        samples += bool(fitting)
        skipped += not fitting
    longest = max(lengths, default=0)
    if not made:
        mend = f"; the longest has {longest}: adaptation.max_length: {_up(longest)}"
        raise TrainerError(
            f"{dataset}: no turn of at most {max_length} tokens to teach{mend if longest else ''}"
        )
    over = sum(length > max_length for length in lengths)
    return Prepared(made, samples, skipped, len(lengths), over, longest, max_length)


def _up(length: int) -> int:
    return math.ceil(length / _ROUND) * _ROUND
