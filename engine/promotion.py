"""Promotion (paper eq. 13): the best valid pair that gains more than the margin, else p_t stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.domains import Domain
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
    tolerance. References are the incumbent and, where a tolerance is allowed, the best ever, so
    that small losses can't add up."""
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


def promote(
    domain: Domain,
    round_number: int,
    incumbent: str,
    incumbent_outcome: Outcome,
    best_ever: Outcome,
    contenders: Sequence[Contender],
    margin: float,
) -> Promotion:
    """Choose p_{t+1}. Never raises: with no eligible contender the incumbent continues."""
    gains: dict[str, float] = {}
    refused: list[str] = []
    eligible: list[Contender] = []
    for contender in contenders:
        gain = contender.outcome.scalar - incumbent_outcome.scalar
        gains[contender.source] = gain
        failed = failed_gates(domain, contender.outcome, [incumbent_outcome, best_ever])
        if contender.outcome.tasks != incumbent_outcome.tasks:
            failed = (*failed, "it was not measured on all of V")
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
    best = max(eligible, key=lambda c: (c.outcome.scalar, -(c.outcome.timr or 0.0)))
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
