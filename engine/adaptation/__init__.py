"""Adaptation: a pair's own accepted trajectories become its model's next weights.

The table ``TRAINERS`` names who trains; it also takes a path ``module:function``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from engine.seams import find

TRAINERS = {
    "transformers": "engine.adaptation.trainer:train",
    "swift": "engine.adaptation.swift.trainer:train",
}

Progress = Callable[[int, int, float], None]
"""Told (steps done, steps in all, loss)."""

Say = Callable[[str], None]
"""Told what a person should know before the expensive part, in a line."""


def quiet(text: str) -> None:
    """A ``Say`` that nobody hears."""
    del text


@dataclass(frozen=True)
class Lora:
    """Train adapters of this rank on all linear layers; they are merged into the weights before
    these become a checkpoint."""

    rank: int = 8
    alpha: int = 32
    dropout: float = 0.0


@dataclass(frozen=True)
class TrainParams:
    """One epoch of SFT (paper A.1): AdamW, cosine, warm-up as a share of steps.

    ``batch_size`` is the global one; ``max_length`` in tokens, turns that end beyond it aren't
    taught. ``lora`` None trains all parameters. ``switches`` are the
    chat template's, as in the rollouts; ``options`` what one trainer alone understands.
    """

    learning_rate: float = 2e-5
    batch_size: int = 8
    max_length: int = 2048
    epochs: int = 1
    warmup: float = 0.03
    lora: Lora | None = None
    switches: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The training in words."""
        if self.lora is None:
            return "full-parameter SFT"
        return f"SFT by LoRA of rank {self.lora.rank}, merged"

    def settings(self) -> dict[str, Any]:
        """What the provenance records; what isn't used is left out."""
        return {key: value for key, value in asdict(self).items() if value not in (None, {})}


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
    checkpoint to ``out``, or nothing; a log at ``out`` with ``.log``. ``say`` hears of turns that
    are too long before the training starts. Raises TrainerError with the cause."""

    def __call__(
        self,
        checkpoint: Path,
        dataset: Path,
        out: Path,
        params: TrainParams,
        seed: int,
        progress: Progress,
        say: Say = quiet,
    ) -> TrainReport: ...


def trainer(name: str) -> Trainer:
    """The trainer called ``name``. Raises ConfigError if unknown."""
    found: Trainer = find("adaptation.trainer", name, TRAINERS)
    return found
