"""SFT by ``swift sft``, in a process of its own: prepared, followed, gone on with after a kill.

Beside the checkpoint-to-be stands ``NAME.resume`` until it is done: the rows, the script that
starts the training, ms-swift's output with the states that it can go on from.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from engine.adaptation import Progress, Say, TrainParams, TrainReport, quiet
from engine.adaptation.preparing import prepare
from engine.adaptation.swift import command, weights
from engine.adaptation.swift.history import Losses, cause, finished, last_state
from engine.adaptation.swift.options import SwiftOptions, find_program
from engine.adaptation.swift.rows import write_rows
from engine.errors import TrainerError
from engine.params import child_environment
from engine.records import write_bytes
from engine.serving.options import checked
from engine.serving.process import cpu_environment
from engine.serving.prompt import tokenizer_of

_TREE = Path(__file__).with_name("tree.py")
_LOOK_S = 0.5


def train(
    checkpoint: Path,
    dataset: Path,
    out: Path,
    params: TrainParams,
    seed: int,
    progress: Progress,
    say: Say = quiet,
) -> TrainReport:
    """Train ``checkpoint`` on ``dataset`` (see ``Trainer``). Raises ConfigError on options that
    don't fit each other or a missing program, TrainerError with the cause and the log."""
    began = time.monotonic()
    options = checked(SwiftOptions, params.options, "adaptation.options")
    program = find_program(options.command)
    options.accumulation(params.batch_size)
    tokenizer = tokenizer_of(checkpoint)
    prepared = prepare(tokenizer, dataset, params.max_length, params.switches)
    if prepared.warning:
        say(prepared.warning)
    work = _opened(out, checkpoint, dataset, params, seed)
    job = command.Job(checkpoint.resolve(), work / "rows.jsonl", work / "output", seed)
    write_rows(job.rows, prepared.sequences, tokenizer)
    run = _Run(out.with_name(f"{out.name}.log"), options)
    losses = Losses(job.output / "logging.jsonl")
    state = run.trained(program, job, params, losses, progress, say)
    if params.lora is not None:
        merged = work / "merged"
        shutil.rmtree(merged, ignore_errors=True)
        run.start(command.merge(program, state, merged, options), {}, lambda: None)
        state = merged
    _finish(state, checkpoint, out)
    shutil.rmtree(work)
    by_step = tuple(losses.by_step[step] for step in sorted(losses.by_step))
    return TrainReport(by_step, prepared.samples, time.monotonic() - began, prepared.skipped)


def _opened(out: Path, checkpoint: Path, dataset: Path, params: TrainParams, seed: int) -> Path:
    """The folder to work in; emptied where it is of another training."""
    work = out.with_name(f"{out.name}.resume").resolve()
    told = [checkpoint.name, _digest(dataset), params.settings(), seed]
    identity = json.dumps(told, sort_keys=True).encode()
    mark = work / "training.json"
    if not mark.is_file() or mark.read_bytes() != identity:
        shutil.rmtree(work, ignore_errors=True)
        write_bytes(mark, identity)
    return work


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _finish(trained: Path, source: Path, out: Path) -> None:
    partial = out.with_name(f".{out.name}.partial")
    for stale in (partial, out):
        shutil.rmtree(stale, ignore_errors=True)
    try:
        weights.write(trained, source, partial)
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class _Run:
    """ms-swift's processes, with what they say in ``log``."""

    def __init__(self, log: Path, options: SwiftOptions) -> None:
        self._log, self._options = log, options

    def trained(
        self,
        program: str,
        job: command.Job,
        params: TrainParams,
        losses: Losses,
        progress: Progress,
        say: Say,
    ) -> Path:
        """The state at the training's end."""
        state = last_state(job.output)
        if state is None or not finished(state):
            if state is not None:
                say(f"the training goes on from step {state.name.rpartition('-')[2]}")
            words = command.sft(program, replace(job, resume=state), params, self._options)
            env = command.launch(self._options)
            text = command.script(words, env)
            write_bytes(job.rows.with_name("train.sh"), text.encode())
            if self._options.nodes > 1:
                say(f"on the other nodes: NODE_RANK=1 (2, …) sh {job.rows.with_name('train.sh')}")

            def follow() -> None:
                for step in losses.new():
                    progress(step.number, step.total, step.loss)

            self.start(words, env, follow)
            state = last_state(job.output)
        for _ in losses.new():
            pass  # of a run before this one
        if state is None:
            raise TrainerError(f"swift ended well and left no weights (log: {self._log})")
        return state

    def start(
        self, words: Sequence[str], env: Mapping[str, str], follow: Callable[[], None]
    ) -> None:
        """Run to the end. Raises TrainerError with the cause."""
        base = cpu_environment() if self._options.cpu else child_environment()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        began = self._log.stat().st_size if self._log.exists() else 0
        with (
            self._log.open("ab") as log,
            subprocess.Popen(
                [sys.executable, "-I", str(_TREE), *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**base, **env},
                start_new_session=True,
            ) as process,
        ):
            try:
                while process.poll() is None:
                    follow()
                    time.sleep(_LOOK_S)
                follow()
            finally:  # an interrupt ends the training too
                assert process.stdin is not None
                process.stdin.close()
        if process.returncode:
            with self._log.open("rb") as written:
                written.seek(began)
                said = cause(written.read().decode("utf-8", "replace"))
            raise TrainerError(
                f"swift failed: {said} (exit status {process.returncode}; log: {self._log})"
            )
