"""What the stages of a round hand on to each other."""

from __future__ import annotations

from dataclasses import dataclass

from engine.domains import Task, Verdict
from kernel.trajectory import Trajectory


@dataclass(frozen=True)
class Rollout:
    """One execution of a pair on a task, with what the verifier said of it.

    ``opaque_id`` names the task outside the engine: salted, so that it gives no task away.
    """

    opaque_id: str
    task: Task
    trajectory: Trajectory
    verdict: Verdict
