"""Promotion (paper eq. 13): the best valid pair that gains more than the margin, else p_t stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.domains import Domain
from engine.evaluation.outcome import rank
from engine.records import Outcome, Promotion


@dataclass(frozen=True)
class Contender:
    """A pair that could take the title, fully measured on V."""

    source: str  # inherited | adapted
    pair: str
    outcome: Outcome


def failed_gates(
    domain: Domain, outcome: Outcome, references: Sequence[Outcome]
) -> tuple[str, ...]:
    """The gates that ``outcome`` fails: below a floor, or below a reference by more than the
    tolerance. The first reference is the incumbent; where a tolerance is allowed, all former ones
    count, gate by gate, so that small losses can't add up. With none, only floors are asked."""
    objective = domain.objective(outcome.metrics)
    failed = [
        f"{name} {value:.3f} is not above {objective.floors[name]:.3f}"
        for name, value in objective.gates.items()
        if name in objective.floors and value <= objective.floors[name]
    ]
    for name, value in objective.gates.items():
        allowed = objective.tolerance.get(name, 0.0)
        known = [reference.gates[name] for reference in references if name in reference.gates]
        bound = (known[0] if allowed == 0 else max(known)) - allowed if known else None
        if bound is not None and value < bound - 1e-12:
            failed.append(f"{name} {value:.3f} fell below {bound:.3f}")
    return tuple(failed)


def gain_over(domain: Domain, outcome: Outcome, reference: Outcome) -> float:
    """What ``outcome`` gains: in the objective's scalar or, where the domain names figures of
    which one must improve, in that of them that gained most."""
    ours = domain.objective(outcome.metrics).improves
    theirs = domain.objective(reference.metrics).improves
    gains = [value - theirs[name] for name, value in ours.items() if name in theirs]
    return max(gains, default=outcome.scalar - reference.scalar)


def order(
    domain: Domain, outcome: Outcome, references: Sequence[Outcome]
) -> tuple[bool, tuple[float, float]]:
    """The key of outcomes, the best is the greatest: those that hold the gates before those that
    don't, then by ``rank``."""
    return (not failed_gates(domain, outcome, references), rank(outcome))


def promote(
    domain: Domain,
    round_number: int,
    incumbent: str,
    incumbent_outcome: Outcome,
    former: Sequence[Outcome],
    contenders: Sequence[Contender],
    margin: float,
) -> Promotion:
    """Choose p_{t+1}; ``former`` are the outcomes of all incumbents so far. Never raises: with no
    eligible contender the incumbent continues."""
    gains: dict[str, float] = {}
    refused: list[str] = []
    eligible: list[Contender] = []
    for contender in contenders:
        gain = gain_over(domain, contender.outcome, incumbent_outcome)
        gains[contender.source] = gain
        failed = failed_gates(domain, contender.outcome, [incumbent_outcome, *former])
        if contender.outcome.tasks != incumbent_outcome.tasks:
            failed = (*failed, "it was not measured on all of V")
        if contender.outcome.setting != incumbent_outcome.setting:
            failed = (*failed, "it was measured in another setting than the incumbent")
        if failed:
            refused.append(f"{contender.source}: {'; '.join(failed)}")
        elif gain <= margin:
            refused.append(f"{contender.source}: gain {gain:+.3f} is not above {margin:.3f}")
        else:
            eligible.append(contender)
    if not eligible:
        why = " | ".join(refused) or "no contender"
        return Promotion(
            round_number, incumbent, incumbent, False, "incumbent", 0.0, margin, why, gains
        )
    best = max(eligible, key=lambda c: rank(c.outcome))
    why = f"best of {_named(eligible)} by {gains[best.source]:+.3f} on V, above {margin:.3f}"
    return Promotion(
        round_number,
        incumbent,
        best.pair,
        True,
        best.source,
        gains[best.source],
        margin,
        why,
        gains,
    )


def _named(contenders: Sequence[Contender]) -> str:
    return ", ".join(contender.source for contender in contenders)
