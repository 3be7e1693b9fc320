"""What ms-swift writes while it trains: losses by step, states to go on from, its last words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_STATE = re.compile(r"checkpoint-(\d+)")
_CAUSE = re.compile(r"^(?:\[rank\d+\]: *)?(?:[\w.]+\.)?\w*(?:Error|Exception|Exit)\b.*")
_MENDS = {
    "out of memory": "raise adaptation.options.sequence_parallel or lower adaptation.max_length",
}


class Step(NamedTuple):
    """One optimizer step."""

    number: int
    total: int
    loss: float


class Losses:
    """Reads ``logging.jsonl`` as it grows. A training that goes on writes on in it, so a step may
    stand there twice: the later one counts."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.by_step: dict[int, float] = {}

    def new(self) -> Iterator[Step]:
        """Steps that have been written since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # half written: next time
                self._read += len(line)
                step = _step(json.loads(line))
                if step is not None:
                    self.by_step[step.number] = step.loss
                    yield step


def _step(row: dict[str, object]) -> Step | None:
    if "loss" not in row:
        return None
    number, total = str(row["global_step/max_steps"]).split("/")
    return Step(int(number), int(total), float(str(row["loss"])))


def last_state(folder: Path) -> Path | None:
    """The newest complete state below ``folder``: its record is written last."""
    found = {
        int(match[1]): path
        for path in folder.glob("checkpoint-*")
        if (match := _STATE.fullmatch(path.name)) and (path / "trainer_state.json").is_file()
    }
    return found[max(found)] if found else None


def finished(state: Path) -> bool:
    """Whether the training had come to its end at ``state``."""
    record = json.loads((state / "trainer_state.json").read_text("utf-8"))
    return bool(record["global_step"] >= record["max_steps"])


def cause(log: str) -> str:
    """The line that says why it failed, with what to do about it where that is known."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if _CAUSE.match(line) and "ChildFailedError" not in line]
    said = errors[-1] if errors else (lines[-1] if lines else "no message")
    mend = next((mend for sign, mend in _MENDS.items() if sign in said), "")
    return f"{said[:300]}{f'; {mend}' if mend else ''}"
