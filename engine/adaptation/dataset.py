"""The SFT data set: accepted trajectories as chat samples, and replay of earlier ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.records import Rollout, write_bytes
from kernel.trajectory import conversations

Sample = Mapping[str, Any]


def samples_of(rollout: Rollout) -> list[Sample]:
    """A rollout's conversations, one for each history that was not just an extension of the one
    before. Turns with interface violations stand in the context but are not taught."""
    made: list[Sample] = []
    for conversation in conversations(rollout.trajectory):
        if any(conversation.train):
            made.append(
                {
                    "task": rollout.opaque_id,
                    "clean": rollout.trajectory.violations == 0,
                    "messages": list(conversation.messages),
                    "tools": list(conversation.tools),
                    "train_turns": list(conversation.train),
                }
            )
    return made


def with_replay(new: Sequence[Sample], earlier: Sequence[Sample]) -> tuple[list[Sample], int]:
    """``new`` plus replayed samples: free of violations, one for each task, tasks that ``new``
    covers left out, the latest first, at most as many as new ones. Returns them and how many
    were replayed."""
    covered = {sample["task"] for sample in new}
    replayed: list[Sample] = []
    for sample in reversed(earlier):
        if len(replayed) >= len(new):
            break
        if sample["clean"] and sample["task"] not in covered:
            covered.add(sample["task"])
            replayed.append(sample)
    return [*new, *replayed], len(replayed)


def write_samples(folder: Path, samples: Sequence[Sample]) -> Path:
    """A file of JSON lines in ``folder``, named by its content."""
    lines = "".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples).encode()
    path = folder / f"{hashlib.sha256(lines).hexdigest()[:12]}.jsonl"
    write_bytes(path, lines)
    return path


def read_samples(path: Path) -> list[Sample]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
