"""Full-parameter SFT by transformers' Trainer, in a process of its own.

The process gives its memory back when it ends, and can't outlive the engine. It says how far it is
in JSON lines; a checkpoint appears at ``out`` complete or not at all.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.adaptation import Progress, Say, TrainParams, TrainReport, quiet
from engine.errors import TrainerError
from engine.serving.options import checked
from engine.serving.process import cpu_environment, guarded


@dataclass(frozen=True)
class NoOptions:
    """``adaptation.options`` of this trainer."""


def train(
    checkpoint: Path,
    dataset: Path,
    out: Path,
    params: TrainParams,
    seed: int,
    progress: Progress,
    say: Say = quiet,
) -> TrainReport:
    """Train ``checkpoint`` on ``dataset`` (see ``Trainer``). Raises TrainerError with the cause and
    the log, ConfigError on options: it has none."""
    checked(NoOptions, params.options, "adaptation.options")
    partial = out.with_name(f".{out.name}.partial")
    for stale in (partial, out):
        shutil.rmtree(stale, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    job = {
        "checkpoint": str(checkpoint),
        "dataset": str(dataset),
        "out": str(partial),
        "seed": seed,
        **asdict(params),
    }
    log = out.with_name(f"{out.name}.log")
    try:
        report = _run(json.dumps(job), log, progress, say)
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return report


def _run(job: str, log: Path, progress: Progress, say: Say) -> TrainReport:
    command = guarded([sys.executable, "-m", "engine.adaptation.sft", job])
    losses: list[float] = []
    last: dict[str, Any] = {}
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=cpu_environment(),
            start_new_session=True,  # its guard ends its own group, not the engine's
        ) as process,
    ):
        try:
            assert process.stdout is not None
            for last in _events(process.stdout):
                if "note" in last:
                    say(last["note"])
                elif "step" in last:
                    losses.append(last["loss"])
                    progress(last["step"], last["steps"], last["loss"])
            process.wait()
        finally:  # an interrupt ends the training too
            assert process.stdin is not None
            process.stdin.close()
    if "samples" not in last:
        cause = last.get("error") or _silent_end(process.returncode, log)
        raise TrainerError(f"training failed: {cause} (log: {log})")
    return TrainReport(tuple(losses), last["samples"], last["seconds"], last["skipped"])


def _events(stream: Any) -> Iterator[dict[str, Any]]:
    for line in stream:
        if line.startswith(b"{"):
            yield json.loads(line)


def _silent_end(status: int, log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    killed = " (killed from outside, or out of memory)" if status == 128 + signal.SIGKILL else ""
    return f"{lines[-1] if lines else 'no message'}; exit status {status}{killed}"
