"""E_t as files: every trial of a batch, whole, in the form in which the proposer reads it.

The outer program packs and does nothing else: no trial is left out, none is put first, nothing is
summed up (second paper §3.2). Labels and graders stay on the host.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.records import Rollout
from engine.self_evolution.schedule import family_of
from kernel import workspace
from kernel.trajectory import Trajectory

_KEPT = ("grader", "logs")
"""What a terminal world puts into a trajectory's answer beside the score: files of their own."""


def lay_out(folder: Path, rollouts: Sequence[Rollout], anchors: Collection[str]) -> None:
    """Write the trials below ``folder``, in place of what is there; ``anchors`` are task ids."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    seen: dict[str, int] = {}
    for rollout in rollouts:
        name = f"{family_of(rollout.task)}-{rollout.opaque_id}"
        seen[name] = seen.get(name, 0) + 1
        again = f"-{seen[name]}" if seen[name] > 1 else ""
        trial = folder / f"{name}{again}"
        trial.mkdir()
        result = {
            "family": family_of(rollout.task),
            "anchor": rollout.task.id in anchors,
            "score": rollout.verdict.score,
            "failure": rollout.verdict.failure,
            **ending(rollout.trajectory),
        }
        (trial / "instruction.md").write_text(rollout.task.instruction + "\n", "utf-8")
        _write_json(trial / "result.json", result)
        write_record(trial, rollout.trajectory)


def write_record(folder: Path, trajectory: Trajectory) -> None:
    """A rollout's own record: its events, its answer, the grader's output, the files it kept."""
    lines = [json.dumps(event, ensure_ascii=False) for event in trajectory.events]
    text = "".join(f"{line}\n" for line in lines)
    (folder / "trajectory.jsonl").write_bytes(text.encode("utf-8", "replace"))
    answer = trajectory.answer
    kept: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {}
    if grader := kept.get("grader"):
        (folder / "grader.txt").write_bytes(str(grader).encode("utf-8", "replace"))
    rest = {key: value for key, value in kept.items() if key not in _KEPT} if kept else answer
    if rest:
        _write_json(folder / "answer.json", rest)
    keep_files(folder / "agent", kept.get("logs") or {})


def keep_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Write files that evolved code named; a name that leads out of ``folder``, or that another
    one of them stands on, is left out."""
    for name, text in sorted(files.items()):
        try:
            workspace.code({name: b""})
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(str(text).encode("utf-8", "replace"))
        except (ValueError, OSError):
            continue


def ending(trajectory: Trajectory) -> Mapping[str, Any]:
    """How a rollout ended and what it used."""
    return {
        "end": trajectory.end,
        "error": trajectory.error,
        "turns": trajectory.turns,
        "violations": trajectory.violations,
        "prompt_tokens": trajectory.prompt_tokens,
        "completion_tokens": trajectory.completion_tokens,
        "seconds": trajectory.wall_s,
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8", "replace")
