"""What the first paper keeps of its training logs: options of the loader, each counted.

A filter says of a row what is wrong with it, '' when it may stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.domains.attribution.trace import Trace, plain

ONE_ERROR, DENSE_STEPS, CONSISTENT_AGENT = "one_error", "dense_steps", "consistent_agent"


def several_errors(row: Mapping[str, Any]) -> str:
    """Whether the row's label names more than one step or agent. Looked at before the row is read,
    for such a label has no one answer."""
    for field in ("mistake_step", "mistake_agent"):
        value = row.get(field)
        if isinstance(value, list):
            return f"{field} names {len(value)}" if len(value) > 1 else ""
    step = row.get("mistake_step")
    if isinstance(step, str) and len(step.replace(";", ",").split(",")) > 1:
        return f"mistake_step names more than one ({step[:40]})"
    return ""


def gaps(trace: Trace) -> str:
    """Whether step numbers are other than 0, 1, 2, … or 1, 2, 3, …"""
    numbers = [step.number for step in trace.steps]
    if any(numbers == list(range(first, first + len(numbers))) for first in (0, 1)):
        return ""
    return "its step numbers leave gaps or are out of order"


def other_agent(trace: Trace) -> str:
    """Whether the decisive step is another agent's than the one held responsible."""
    agent = next(step.agent for step in trace.steps if step.number == trace.mistake_step)
    if plain(agent) == plain(trace.mistake_agent):
        return ""
    return f"step {trace.mistake_step} is {agent}'s, responsible is {trace.mistake_agent}"


ON_TRACES: Mapping[str, Callable[[Trace], str]] = {
    DENSE_STEPS: gaps,
    CONSISTENT_AGENT: other_agent,
}
FILTERS = (ONE_ERROR, *ON_TRACES)
