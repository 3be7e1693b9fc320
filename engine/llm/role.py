"""The language model that plays a role, as params.yaml describes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.llm.chat import LLM
from engine.llm.endpoint import Endpoint, configured
from engine.llm.meter import open_meter
from engine.params import AuditParams, CuratorParams, InheritanceParams, Params


def role_endpoint(params: Params, role: str) -> Endpoint:
    """What ``curator``, ``inheritance`` or ``audit`` asks. Raises ConfigError for what isn't set."""
    sections: dict[str, CuratorParams | InheritanceParams | AuditParams] = {
        "curator": params.curator,
        "inheritance": params.inheritance,
        "audit": params.audit,
    }
    return configured(params.llm, role, sections[role].model)


@contextmanager
def role_model(root: Path, params: Params, role: str, round_number: int) -> Iterator[LLM]:
    """The model of a role for one round, counted and capped. Raises ConfigError."""
    endpoint = role_endpoint(params, role)
    meter = open_meter(root, params, round_number)
    try:
        yield LLM(endpoint, meter)
    finally:
        meter.close()
