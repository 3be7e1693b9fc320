"""F_t = diagnose(p_t, O_t): what the incumbent's rollouts say, by statistics (paper eq. 6).

Figures by strata, end reasons and violation kinds; three to six failure classes with counts and
sample ids; successes beside them as controls. Nothing here knows a domain: a class is named by
how the rollout ended or by the verifier's own word for what is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.domains import Domain
from engine.records import Cost, Rollout
from kernel.mismatch import timr

ADDRESSABLE = "harness-addressable"
MODEL_LIMITED = "model-limited"
EXTERNAL = "external"
FEWEST, MOST = 3, 6
_SAMPLES = 4
_CONTROLS = 6


@dataclass(frozen=True)
class Stratum:
    """One value of one stratum: tasks run, mean score, TIMR, and its most frequent failures."""

    key: str
    value: str
    n: int
    score: float
    timr: float | None
    failures: Mapping[str, int]


@dataclass(frozen=True)
class FailureClass:
    """Failures alike. ``cause`` is the machine's name for it, ``where`` the stratum it was cut to
    ('' for all); ``grounded`` of its rollouts had looked something up before they answered."""

    name: str
    cause: str
    kind: str
    count: int
    grounded: int
    samples: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True)
class Failure:
    """A task that failed, in its first failed rollout: what classes of failures are made from."""

    id: str
    cause: str
    end: str
    turns: int
    grounded: bool
    violations: tuple[str, ...]
    strata: Mapping[str, str]


@dataclass(frozen=True)
class Feedback:
    """The diagnosis. ``classes`` come with the most frequent first; ids are opaque. ``cost`` is
    what it took to have the rollouts. ``failures`` are all that failed, by id."""

    n: int
    score: float
    timr: float | None
    turns: float
    prompt_tokens: float
    metrics: Mapping[str, float]
    ends: Mapping[str, int]
    violations: Mapping[str, int]
    strata: tuple[Stratum, ...]
    classes: tuple[FailureClass, ...]
    controls: tuple[str, ...]
    cost: Cost = field(default_factory=Cost)
    failures: tuple[Failure, ...] = ()


def diagnose(rollouts: Sequence[Rollout], domain: Domain) -> Feedback:
    """The diagnosis of one pair's rollouts. Raises ValueError without any rollout."""
    if not rollouts:
        raise ValueError("there is no rollout to diagnose")
    n = len(rollouts)
    trajectories = [each.trajectory for each in rollouts]
    right = sorted(each.opaque_id for each in rollouts if each.verdict.accepted)
    return Feedback(
        n=n,
        score=sum(each.verdict.score for each in rollouts) / n,
        timr=timr(trajectories),
        turns=sum(each.turns for each in trajectories) / n,
        prompt_tokens=sum(each.prompt_tokens for each in trajectories) / n,
        metrics=domain.metrics([(each.task, each.verdict) for each in rollouts]),
        ends=_counted(each.end for each in trajectories),
        violations=_counted(flag for each in rollouts for flag in flags(each)),
        strata=tuple(_strata(rollouts)),
        classes=tuple(_classes([each for each in rollouts if not each.verdict.accepted])),
        controls=tuple(right[:_CONTROLS]),
        failures=tuple(_failures(rollouts)),
    )


def cause(rollout: Rollout) -> str:
    """Why a failed rollout failed: how it ended where it gave no answer, else the verifier's
    word."""
    end = rollout.trajectory.end
    if end == "answered":
        return rollout.verdict.failure or "wrong_answer"
    if end == "no_answer":
        last = next(reversed(_replies(rollout)), None)
        return "malformed" if last is not None and last == "malformed" else "no_call"
    return end


def flags(rollout: Rollout) -> list[str]:
    """The violation kinds of a rollout's turns, without the turns that have none."""
    return [flag for flag in _replies(rollout) if flag]


def _replies(rollout: Rollout) -> list[str]:
    events = rollout.trajectory.events
    return [str(each.get("violation", "")) for each in events if each["kind"] == "reply"]


def grounded(rollout: Rollout) -> bool:
    """Whether the world was asked for anything before the answer."""
    calls = [each for each in rollout.trajectory.events if each["kind"] in ("call", "exec")]
    return len(calls) > 1 or (len(calls) == 1 and rollout.trajectory.end != "answered")


def _failures(rollouts: Sequence[Rollout]) -> list[Failure]:
    first: dict[str, Rollout] = {}
    for each in rollouts:
        if not each.verdict.accepted:
            first.setdefault(each.opaque_id, each)
    return [
        Failure(
            id=name,
            cause=cause(each),
            end=each.trajectory.end,
            turns=each.trajectory.turns,
            grounded=grounded(each),
            violations=tuple(flags(each)),
            strata=dict(each.task.strata),
        )
        for name, each in sorted(first.items())
    ]


def _kind(name: str, count: int, looked_up: int) -> str:
    """A failure of ending or of looking nothing up is the harness's to mend; one that is wrong
    with the evidence in view is the model's, as far as statistics can tell."""
    if name in ("model_error", "bad_reference"):
        return EXTERNAL
    ends_badly = {"malformed", "no_call", "turn_limit", "context_overflow", "timeout"}
    if name in ends_badly | {"harness_error", "no_commands"}:
        return ADDRESSABLE
    return MODEL_LIMITED if 2 * looked_up > count else ADDRESSABLE


def _classes(failed: Sequence[Rollout]) -> list[FailureClass]:
    groups: dict[tuple[str, str], list[Rollout]] = defaultdict(list)
    for rollout in failed:
        groups[(cause(rollout), "")].append(rollout)
    while len(groups) < FEWEST and (cut := _finer(groups)):
        groups = cut
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(ordered) > MOST:
        rest = [rollout for _, members in ordered[MOST - 1 :] for rollout in members]
        ordered = [*ordered[: MOST - 1], (("other", ""), rest)]
    return [_class(name, where, members) for (name, where), members in ordered]


Groups = dict[tuple[str, str], list[Rollout]]


def _finer(groups: Groups) -> Groups | None:
    """The largest class cut in two by the stratum value that most of it shares; None where no
    stratum tells its members apart."""
    by_size = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    for (name, where), members in by_size:
        counted = Counter(
            f"{key} {value}" for each in members for key, value in each.task.strata.items()
        )
        parts = [(n, label) for label, n in counted.items() if n < len(members)]
        if where or not parts:
            continue
        _, label = max(parts)
        inside = [each for each in members if label in _labels(each)]
        outside = [each for each in members if label not in _labels(each)]
        left = {key: value for key, value in groups.items() if key != (name, where)}
        return {**left, (name, label): inside, (name, f"not {label}"): outside}
    return None


def _labels(rollout: Rollout) -> set[str]:
    return {f"{key} {value}" for key, value in rollout.task.strata.items()}


def _class(name: str, where: str, members: Sequence[Rollout]) -> FailureClass:
    looked_up = sum(grounded(each) for each in members)
    samples = tuple(sorted(each.opaque_id for each in members)[:_SAMPLES])
    return FailureClass(
        name=f"{name.replace('_', ' ')}{f' ({where})' if where else ''}",
        cause=name,
        kind=_kind(name, len(members), looked_up),
        count=len(members),
        grounded=looked_up,
        samples=samples,
        where=where,
    )


def _strata(rollouts: Sequence[Rollout]) -> list[Stratum]:
    groups: dict[tuple[str, str], list[Rollout]] = defaultdict(list)
    by_rules = any(_decided_by(rollout) == "rules" for rollout in rollouts)
    for rollout in rollouts:
        for key, value in rollout.task.strata.items():
            groups[(key, value)].append(rollout)
        if by_rules:
            groups[("decided by", _decided_by(rollout))].append(rollout)
    return [
        Stratum(
            key=key,
            value=value,
            n=len(members),
            score=sum(each.verdict.score for each in members) / len(members),
            timr=timr([each.trajectory for each in members]),
            failures=_counted(cause(each) for each in members if not each.verdict.accepted),
        )
        for (key, value), members in sorted(groups.items())
    ]


def _decided_by(rollout: Rollout) -> str:
    """Whether a harness answered without the model, by the host's count of turns."""
    ended = rollout.trajectory
    return "rules" if ended.end == "answered" and not ended.turns else "model"


def _counted(names: Iterable[str]) -> dict[str, int]:
    counted = Counter(names)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
