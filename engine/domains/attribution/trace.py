"""The log of a failed run with its label, and the task it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.domains import Task
from engine.domains.smart_home.row import normalised

LENGTHS = ((10, "<=10"), (20, "11-20"), (40, "21-40"))
"""Strata of a log's length in steps, each with its upper end; above the last it is ``>40``."""


@dataclass(frozen=True)
class Step:
    """One step of a log. ``agent`` is the name as the world shows it (see ``plain``)."""

    number: int
    agent: str
    text: str


@dataclass(frozen=True)
class Trace:
    """A log and its label. ``mistake_agent`` is as the annotators wrote it, ``mistake_step`` the
    number of one of ``steps``; ``source`` is the subset it comes from."""

    id: str
    source: str
    question: str
    steps: Sequence[Step]
    mistake_agent: str
    mistake_step: int

    @property
    def group(self) -> str:
        """What stands in one split: the question, however it is punctuated."""
        return normalised(self.question) or self.question


def plain(name: str) -> str:
    """An agent's name without parenthesised suffixes: ``Orchestrator (thought)`` is
    ``Orchestrator``. A name that is nothing else stays as it is."""
    bare = re.sub(r"(\s*\([^()]*\))+\s*$", "", name).strip()
    return bare or name.strip()


def agents(steps: Sequence[Step]) -> list[str]:
    """The agents in the order in which they first speak."""
    return list(dict.fromkeys(step.agent for step in steps))


def public(trace: Trace) -> dict[str, Any]:
    """What is shown before anything is inspected: the question, and who speaks at which step."""
    return {
        "question": trace.question,
        "agents": agents(trace.steps),
        "steps": [{"step": step.number, "agent": step.agent} for step in trace.steps],
    }


def make_task(trace: Trace) -> Task:
    """The task of a trace: the texts and the label are private, and only the label is secret from
    the world."""
    texts = {str(step.number): step.text for step in trace.steps}
    log = "\n".join(f"{step.agent}: {step.text}" for step in trace.steps)
    return Task(
        id=trace.id,
        instruction=trace.question,
        public=public(trace),
        private={
            "texts": texts,
            "mistake_agent": trace.mistake_agent,
            "mistake_step": trace.mistake_step,
        },
        content=f"{trace.question.strip()}\n{log}",
        strata=strata(trace),
        group=trace.group,
    )


def strata(trace: Trace) -> Mapping[str, str]:
    """Length, number of agents and source, as a diagnosis groups them."""
    return {
        "length": length_stratum(len(trace.steps)),
        "agents": agent_stratum(len(agents(trace.steps))),
        "source": trace.source,
    }


def length_stratum(steps: int) -> str:
    """The length stratum (paper, prompt B)."""
    return next((name for most, name in LENGTHS if steps <= most), ">40")


def agent_stratum(count: int) -> str:
    """The number of agents, from 5 on taken together (paper, prompt B)."""
    return str(count) if count < 5 else ">=5"
