"""ms-swift against the plain trainer on the same batches: loss by step, and seconds.

python benchmarks/training.py CHECKPOINT DATASET --swift .venv-swift/bin/swift [--samples 4]

CHECKPOINT and DATASET are a run repository's own (checkpoints/…, .coevo/datasets/…). Every step
takes all samples, so that their order is no difference. The plain trainer is the baseline.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from engine.adaptation import Lora, TrainParams, TrainReport, trainer
from engine.adaptation.dataset import read_samples, write_samples

WAYS = {
    "transformers": ("transformers", {}),
    "swift": ("swift", {"deepspeed": ""}),
    "swift, ZeRO-3": ("swift", {"deepspeed": "zero3"}),
}


def trained(way: str, given: argparse.Namespace, data: Path, scratch: Path) -> TrainReport:
    name, options = WAYS[way]
    own = {**options, "command": given.swift, "cpu": given.cpu} if name == "swift" else {}
    params = TrainParams(
        learning_rate=given.learning_rate,
        batch_size=given.samples,
        max_length=given.max_length,
        epochs=given.steps,
        warmup=0.0,  # of so few steps one trainer makes one, the other none
        lora=Lora() if given.lora else None,
        options=own,
    )
    times = [time.monotonic()]

    def step(done: int, total: int, loss: float) -> None:
        times.append(time.monotonic())
        print(f"{way}: step {done} of {total}, loss {loss:.4f}", flush=True)

    out = scratch / "out"
    report = trainer(name)(given.checkpoint, data, out, params, 0, step)
    between = (times[-1] - times[1]) / max(1, len(times) - 2)
    print(f"{way}: {report.seconds:.0f} s in all, {between:.1f} s a step after the first")
    shutil.rmtree(out)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--swift", default="swift")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--max-length", type=int, default=2048)
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--gpu", dest="cpu", action="store_false")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        data = write_samples(scratch, read_samples(given.dataset)[: given.samples])
        reports = {way: trained(way, given, data, scratch) for way in given.ways}
    base = reports[given.ways[0]]
    for way, report in reports.items():
        off = max(abs(a - b) for a, b in zip(report.losses, base.losses, strict=True))
        ratio = report.seconds / base.seconds
        print(f"{way:<16} loss differs by at most {off:.4f}; {ratio:.1f} times the time")


if __name__ == "__main__":
    main()
