"""The language model that plays a role, as params.yaml describes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engine.llm.answered import Answered, answers_path
from engine.llm.chat import LLM
from engine.llm.endpoint import Endpoint, configured
from engine.llm.meter import open_meter
from engine.params import AuditParams, CuratorParams, EditorParams, InheritanceParams, Params


def role_endpoint(params: Params, role: str) -> Endpoint:
    """What a role (curator, editors, inheritance, audit) asks. Raises ConfigError naming what isn't
    set."""
    sections: dict[str, CuratorParams | EditorParams | InheritanceParams | AuditParams] = {
        "curator": params.curator,
        "editors": params.editors,
        "inheritance": params.inheritance,
        "audit": params.audit,
    }
    return configured(params.llm, role, sections[role].model)


@contextmanager
def role_model(
    root: Path, params: Params, role: str, round_number: int, *, resumed: bool = False
) -> Iterator[LLM]:
    """The model of a role for one round, counted and capped; ``resumed``: what it answered to a
    killed process isn't asked again. Raises ConfigError."""
    endpoint = role_endpoint(params, role)
    with ExitStack() as stack:
        meter = open_meter(root, params, round_number)
        stack.callback(meter.close)
        answered = None
        if resumed:
            answered = Answered(answers_path(root, params.run, round_number, role))
            stack.callback(answered.close)
        yield LLM(endpoint, meter, answered=answered)
