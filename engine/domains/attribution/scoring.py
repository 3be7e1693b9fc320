"""Agent and step accuracy: ours by equality, the benchmark's own by substring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.domains.attribution.trace import plain

AGENT_WEIGHT, STEP_WEIGHT = 3, 7
"""The objective's weights (paper, prompt B)."""

COUNTED = ("agent", "step", "official_agent", "official_step")


@dataclass(frozen=True)
class Answer:
    """Who is held responsible, and the number of the decisive step."""

    agent: str
    step: int


def parse_answer(value: Any) -> Answer | None:
    """What a harness submitted, or None where it is no answer."""
    if not isinstance(value, Mapping):
        return None
    agent, step = value.get("agent"), value.get("step")
    if not isinstance(agent, str) or isinstance(step, bool) or not isinstance(step, int):
        return None
    return Answer(agent, step)


def counts(agent: str, step: int, answer: Answer | None) -> dict[str, float]:
    """The additive figures of one answer; ``agent`` and ``step`` are the label.

    The official test of Who&When asks whether the label stands somewhere in the prediction, so
    that step 1 is found in 10 (github.com/ag2ai/Agents_Failure_Attribution, evaluate.py).
    """
    if answer is None:
        return {"n": 1.0, **dict.fromkeys(COUNTED, 0.0)}
    return {
        "n": 1.0,
        "agent": float(plain(agent) == plain(answer.agent)),
        "step": float(step == answer.step),
        "official_agent": float(agent in answer.agent),
        "official_step": float(str(step) in str(answer.step)),
    }


def failure(found: Mapping[str, float], answer: Answer | None) -> str:
    """A short name for what is wrong with an answer, '' when it is right."""
    if answer is None:
        return "no_answer"
    if found["agent"]:
        return "" if found["step"] else "wrong_step"
    return "wrong_agent" if found["step"] else "wrong_agent_and_step"


def objective(agent_accuracy: float, step_accuracy: float) -> float:
    """The weighted mean of both accuracies."""
    weighed = AGENT_WEIGHT * agent_accuracy + STEP_WEIGHT * step_accuracy
    return weighed / (AGENT_WEIGHT + STEP_WEIGHT)


def figures(total: Mapping[str, float]) -> dict[str, float]:
    """Accuracies of summed counts, fractions of 1; 0 where there is nothing to divide by."""
    n = total.get("n", 0.0)
    return {f"{name}_accuracy": total.get(name, 0.0) / n if n else 0.0 for name in COUNTED}
