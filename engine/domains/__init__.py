"""Task domains. Adding one is a folder here and a line in ``registry.DOMAINS``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kernel.contract import HostWorld, Limits

if TYPE_CHECKING:
    from engine.params import Params


@dataclass(frozen=True)
class Task:
    """One problem. ``public`` reaches the harness; ``private`` (labels) never leaves the host.

    ``content`` is what makes two tasks the same problem (splits are disjoint by it): text, not a
    digest, so that near duplicates can be seen, best as ``setting|instruction``. ``strata`` groups
    tasks in a diagnosis. Tasks of one ``group`` never stand in two splits ('': it is in none). All
    values are JSON-able.
    """

    id: str
    instruction: str
    public: Mapping[str, Any]
    private: Mapping[str, Any]
    content: str
    strata: Mapping[str, str] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the verifier says of one answer.

    ``score`` is in [0, 1]; ``accepted`` decides rejection sampling; ``counts`` are the additive
    figures that ``Domain.metrics`` sums; ``failure`` is a short class name, '' when right. In an
    evaluation the host adds ``turns``, its own count of the model's, to ``counts``.
    """

    score: float
    accepted: bool
    counts: Mapping[str, float]
    failure: str = ""


@dataclass(frozen=True)
class Objective:
    """The order of two outcomes: ``scalar`` is compared by the margin, ``gates`` must hold.

    ``gates`` maps a gate's name to its value; ``tolerance`` says how far each may fall below the
    incumbent's (and below the best the run ever promoted). ``floors`` are values that a gate must
    exceed whatever the incumbent has. Where ``improves`` is not empty, a gain is one of any of its
    figures (more is better) over the incumbent's, not of ``scalar``, which still ranks.
    """

    scalar: float
    gates: Mapping[str, float]
    tolerance: Mapping[str, float] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)
    improves: Mapping[str, float] = field(default_factory=dict)


class Splits(Protocol):
    @property
    def train(self) -> Sequence[Task]: ...

    @property
    def validation(self) -> Sequence[Task]: ...

    @property
    def test(self) -> Sequence[Task]: ...


class Domain(Protocol):
    """One task domain: tasks, world, verifier, metrics, objective, contract, seed harness.

    One whose worlds need other limits than the default also has ``limits``: a field of
    ``kernel.contract.Limits`` that params.yaml doesn't set -> its value.
    """

    name: str
    turn_limit: int
    entry_points: Mapping[str, tuple[str, ...]]
    """The public contract of harnesses: function or class name in harness.py -> its parameters
    (for a class or for what ``build_*`` returns, methods are spelled ``Agent.step``)."""
    seed_harness: Path
    direction: str

    def load(self, data: Path, seed: int, sizes: Mapping[str, int]) -> Splits:
        """Splits from real files. Raises DataError naming file, line and field.

        A domain that can leave malformed rows out also takes ``skip_bad_rows: bool = False``; the
        splits it returns then have ``skipped``, one line for each row with what is wrong where.
        One whose filters drop sound rows lists them in ``left_out``.
        """
        ...

    def generate(self, salt: str, seed: int, sizes: Mapping[str, int]) -> Splits:
        """Splits of synthetic tasks; disjoint by id and content. ``salt`` is kept out of git."""
        ...

    def world(self, task: Task) -> HostWorld: ...

    def practice(self, task: Task, instruction: str) -> Task:
        """The world of ``task`` with another instruction and without any reference answer: for
        running an agent outside an evaluation. It can't be verified."""
        ...

    def verify(self, task: Task, answer: Any | None) -> Verdict: ...

    def metrics(self, verdicts: Sequence[tuple[Task, Verdict]]) -> dict[str, float]:
        """Figures over a task set, fractions of 1; ``score`` is among them."""
        ...

    def objective(self, metrics: Mapping[str, float]) -> Objective: ...


def rollout_limits(domain: Domain, params: Params) -> Limits:
    """What a rollout may use: params.yaml's limits, the rest as the domain has it."""
    own: Mapping[str, Any] = getattr(domain, "limits", {})
    return replace(params.limits.limits(domain.turn_limit), **own)
