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
    """``new`` plus replayed trajectories: free of violations, one for each task, tasks that ``new``
    covers left out, the latest sampled first, at most as many as new ones. A trajectory keeps all
    its conversations. Returns the samples and how many trajectories were replayed.

    A sample's ``round`` says when it was sampled: data sets hold what they replayed, too, so the
    order of the data sets doesn't tell.
    """
    covered = {sample["task"] for sample in new}
    known: dict[tuple[int, str], list[Sample]] = {}
    for sample in earlier:
        if sample["clean"] and sample["task"] not in covered:
            conversations = known.setdefault((sample["round"], sample["task"]), [])
            if sample not in conversations:
                conversations.append(sample)
    latest: dict[str, list[Sample]] = {}
    for (_, task), samples in sorted(known.items(), key=lambda item: item[0], reverse=True):
        latest.setdefault(task, samples)
    chosen = list(latest.values())[: len(covered)]
    return [*new, *(sample for samples in chosen for sample in samples)], len(chosen)


def write_samples(folder: Path, samples: Sequence[Sample]) -> Path:
    """A file of JSON lines in ``folder``, named by its content."""
    lines = "".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples).encode()
    path = folder / f"{hashlib.sha256(lines).hexdigest()[:12]}.jsonl"
    write_bytes(path, lines)
    return path


def read_samples(path: Path) -> list[Sample]:
    # Of bytes: a text's lines also end at marks that JSON doesn't escape.
    return [json.loads(line) for line in path.read_bytes().splitlines()]
