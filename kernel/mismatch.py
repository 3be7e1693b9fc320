"""Which turns violate the interface that the domain fixes, and their rate over trajectories.

TIMR(H, θ) = Σ violating turns / Σ turns, every completion being a turn. A turn counts once however
many violations it has, and even if the harness recovers from it later. Only the completion and
the domain's rules decide: tools of a harness's own are prompt text, nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kernel import tools
from kernel.contract import Completion, InterfaceRules

MALFORMED, UNAVAILABLE_TOOL, CONTRACT = "malformed", "unavailable_tool", "contract"


class Counted(Protocol):
    """Anything with the two counts of a trajectory."""

    @property
    def turns(self) -> int: ...

    @property
    def violations(self) -> int: ...


def violation(completion: Completion, rules: InterfaceRules) -> str:
    """'' for an admissible turn, else the first of: malformed, unavailable_tool, contract.

    contract: arguments that fail the tool's schema, more calls than a turn may hold, or text
    where a call is due.
    """
    calls = completion.tool_calls
    if completion.malformed or any(tools.parse(call.arguments) is None for call in calls):
        return MALFORMED
    schemas = tools.parameters(rules.tools)
    if any(call.name not in schemas for call in calls):
        return UNAVAILABLE_TOOL
    if not calls:
        return "" if rules.text_turns else CONTRACT
    if rules.calls_per_turn is not None and len(calls) > rules.calls_per_turn:
        return CONTRACT
    for call in calls:
        try:
            tools.validate(call.arguments, schemas[call.name])
        except ValueError:
            return CONTRACT
    return ""


def timr(trajectories: Iterable[Counted]) -> float | None:
    """The rate as a fraction of 1; None (undefined) when there is no turn at all."""
    turns = violations = 0
    for trajectory in trajectories:
        turns += trajectory.turns
        violations += trajectory.violations
    return violations / turns if turns else None
