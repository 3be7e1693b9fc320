"""Adaptation: a pair's own accepted trajectories become its model's next weights.

The table ``TRAINERS`` names who trains; it also takes a path ``module:function``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.seams import find

TRAINERS = {"transformers": "engine.adaptation.trainer:train"}

Progress = Callable[[int, int, float], None]
"""Told (steps done, steps in all, loss)."""


@dataclass(frozen=True)
class TrainParams:
    """One epoch of full-parameter SFT (paper A.1): AdamW, cosine, warm-up as a share of steps.

    ``batch_size`` is the global one; ``max_length`` in tokens, longer samples are left out.
    """

    learning_rate: float = 2e-5
    batch_size: int = 8
    max_length: int = 2048
    epochs: int = 1
    warmup: float = 0.03


@dataclass(frozen=True)
class TrainReport:
    """``losses`` by step; ``skipped`` samples were longer than ``max_length``."""

    losses: tuple[float, ...]
    samples: int
    seconds: float
    skipped: int = 0


class Trainer(Protocol):
    """Trains ``checkpoint`` on the samples in ``dataset`` (JSON lines: ``messages``, ``tools``,
    ``train_turns``: for each assistant message whether it is taught) and writes a complete
    checkpoint to ``out``, or nothing. Raises TrainerError with the cause."""

    def __call__(
        self,
        checkpoint: Path,
        dataset: Path,
        out: Path,
        params: TrainParams,
        seed: int,
        progress: Progress,
    ) -> TrainReport: ...


def trainer(name: str) -> Trainer:
    """The trainer called ``name``. Raises ConfigError if unknown."""
    found: Trainer = find("adaptation.trainer", name, TRAINERS)
    return found
