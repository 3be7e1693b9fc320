"""Identities: what a rollout, an evaluation and a task are known by."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.domains import Task
from kernel.contract import Limits, Sampling


def digest(value: Any) -> str:
    """sha256 over canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def task_digest(task: Task) -> str:
    """Everything the rollout and its verdict depend on in a task."""
    return digest([task.id, task.instruction, dict(task.public), dict(task.private)])


def opaque_id(secret: bytes, task: Task) -> str:
    """A task's name outside the engine; without the secret it says nothing of the task."""
    return hmac.new(secret, task.id.encode(), hashlib.sha256).hexdigest()[:12]


def rollout_seed(run_seed: int, task: Task, execution: int) -> int:
    """The sampling seed of one execution: the same for every pair, so that pairs are compared on
    common random numbers."""
    return int(digest([run_seed, task.id, execution])[:7], 16)


@dataclass(frozen=True)
class Setting:
    """All that a rollout depends on beside pair, task and seed."""

    split: str
    sampling: Sampling
    limits: Limits
    backend: str
    domain: str
    kernel: str

    def fingerprint(self) -> Mapping[str, Any]:
        return {**asdict(self), "limits": {**asdict(self.limits), "extra": dict(self.limits.extra)}}

    def recorded(self, executions: int, seed: int) -> Mapping[str, Any]:
        """What makes two evaluations on the same tasks comparable, flat, by parameter."""
        flat: dict[str, Any] = {"executions": executions, "seed": seed}
        for name, value in self.fingerprint().items():
            if isinstance(value, Mapping):
                flat.update({f"{name}.{inner}": each for inner, each in value.items()})
            else:
                flat[name] = value
        return flat


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The parameters in which two recorded settings differ."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def rollout_key(
    setting: Setting, code_id: str, weights: str, task: Task, execution: int, seed: int
) -> str:
    """The journal's key: it names everything that a rollout's result depends on."""
    return digest([setting.fingerprint(), code_id, weights, task_digest(task), execution, seed])


def evaluation_key(keys: Sequence[str]) -> str:
    """The identity of an evaluation: its rollouts'."""
    return digest(sorted(keys))[:24]
