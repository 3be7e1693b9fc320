"""What the stages of a round hand on to each other, and how records are kept as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from engine.domains import Task, Verdict
from engine.errors import ConfigError
from engine.inheritance import Decision
from kernel.trajectory import Trajectory

SCHEMA = 1
T = TypeVar("T")
_adapters: dict[type, TypeAdapter[Any]] = {}


@dataclass(frozen=True)
class Rollout:
    """One execution of a pair on a task, with what the verifier said of it.

    ``opaque_id`` names the task outside the engine: salted, so that it gives no task away.
    """

    opaque_id: str
    task: Task
    trajectory: Trajectory
    verdict: Verdict


@dataclass(frozen=True)
class Cost:
    """What a stage used. ``cached`` rollouts came from the journal; seconds are wall time."""

    rollouts: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.rollouts + other.rollouts,
            self.cached + other.cached,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.seconds + other.seconds,
        )

    def figures(self) -> Mapping[str, float]:
        """By name, as the trailers of a round give them."""
        return {
            "rollouts": self.rollouts,
            "cached": self.cached,
            "prompt-tokens": self.prompt_tokens,
            "completion-tokens": self.completion_tokens,
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True)
class Outcome:
    """A pair measured on a task set: Ĵ_D(p) (paper eq. 2) as ``score``, TIMR (eq. 5), metrics.

    ``by_task`` holds the scores of each execution under opaque task ids; ``scalar`` and ``gates``
    are the domain's objective. ``timr`` is None where there was no turn. ``setting`` is how it was
    measured (limits, sampling, backend, kernel, ...): outcomes of unlike settings aren't compared.
    """

    split: str
    tasks: int
    executions: int
    score: float
    timr: float | None
    scalar: float
    gates: Mapping[str, float]
    metrics: Mapping[str, float]
    ends: Mapping[str, int]
    by_task: Mapping[str, tuple[float, ...]]
    eval_key: str
    cost: Cost = field(default_factory=Cost)
    setting: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Opened:
    """The round that is being run, and the pair that holds the title."""

    round: int
    run: str
    incumbent: str
    previous: str


@dataclass(frozen=True)
class Offspring:
    """What one editor left: an archived harness, or the reason why it is no candidate. ``remarks``
    say what else was seen of its session, ``transcript`` is the .dvc text of its record."""

    slot: str
    harness: str
    status: str  # valid | rejected | duplicate
    base: str
    adopts: tuple[tuple[str, str], ...] = ()
    editor: str = ""
    subject: str = ""
    reasons: tuple[str, ...] = ()
    repaired: bool = False
    remarks: tuple[str, ...] = ()
    transcript: str = ""


@dataclass(frozen=True)
class Edited:
    """All offspring of a round, in slot order."""

    offspring: tuple[Offspring, ...]
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class Candidate:
    """A pair considered in a round. ``pair`` is set where it was measured on all of V."""

    slot: str
    harness: str
    checkpoint: str
    alpha: Mapping[str, float]
    why: str
    preliminary: Outcome | None = None
    pair: str | None = None


@dataclass(frozen=True)
class Inherited:
    """Q_sel and p̄ (paper eq. 12): ``selected`` is a pair hash, None without a valid candidate.
    ``decisions`` are the steps of a policy that works by steps."""

    candidates: tuple[Candidate, ...]
    selected: str | None
    note: str = ""
    cost: Cost = field(default_factory=Cost)
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True)
class Adapted:
    """p⁺: the selected pair after SFT on its own accepted trajectories; None if passed through."""

    pair: str | None
    checkpoint: str | None
    sampled: int = 0
    accepted: int = 0
    replayed: int = 0
    trained: int = 0
    loss: tuple[float, ...] = ()
    note: str = ""
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class Promotion:
    """The choice of p_{t+1} among incumbent, inherited and adapted (paper eq. 13). ``gain`` is None
    in self-evolution, where incumbent and successor are measured on different batches."""

    round: int
    incumbent: str
    next: str
    promoted: bool
    source: str  # incumbent | inherited | adapted
    gain: float | None
    margin: float
    why: str
    gains: Mapping[str, float] = field(default_factory=dict)


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """How records of one kind are read and written; made once, since it takes a while."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def to_bytes(record: object) -> bytes:
    """A record as stable, readable JSON with its schema number and kind."""
    body: Any = adapter(type(record)).dump_python(record, mode="json")
    wrapped = {"schema": SCHEMA, "kind": type(record).__name__.lower(), **body}
    return (json.dumps(wrapped, indent=1, ensure_ascii=False) + "\n").encode()


def from_bytes(data: bytes, kind: type[T], name: str) -> T:
    """The record in ``data``. Raises ConfigError naming ``name`` and the field."""
    mend = "delete it and run `dvc repro` again"
    label = kind.__name__.lower()
    try:
        body = json.loads(data)
    except ValueError as error:
        raise ConfigError(f"{name}: not JSON ({error}); {mend}") from None
    if (
        not isinstance(body, dict)
        or body.pop("schema", None) != SCHEMA
        or body.pop("kind", None) != label
    ):
        raise ConfigError(f"{name}: not a record {label!r} of schema {SCHEMA}; {mend}")
    try:
        return adapter(kind).validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{name}: {where}: {first['msg']}; {mend}") from None


def write(path: Path, record: object) -> None:
    """Replace ``path`` in one step, so that a killed stage leaves no half record."""
    write_bytes(path, to_bytes(record))


def write_bytes(path: Path, data: bytes) -> None:
    """Replace ``path`` with ``data`` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path, kind: type[T]) -> T:
    """Read one record. Raises ConfigError where it is missing or wrong."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: missing; run `dvc repro` from the first stage") from None
    return from_bytes(data, kind, str(path))


def metrics_bytes(round_number: int, outcome: Outcome) -> bytes:
    """The incumbent's figures on V after a round, flat, for ``dvc metrics show|diff``."""
    figures = {"round": round_number, "timr": outcome.timr, **dict(outcome.metrics)}
    return (json.dumps(figures, indent=1) + "\n").encode()
