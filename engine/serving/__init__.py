"""Who answers for a checkpoint: every backend speaks Chat Completions, one client talks to all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.seams import find

if TYPE_CHECKING:
    from engine.params import ServingParams
    from engine.serving.base import Server

SERVERS = {
    "embedded": "engine.serving.embedded:EmbeddedServer",
    "vllm": "engine.serving.vllm:VllmServer",
    "external": "engine.serving.external:ExternalServer",
}
"""Name to implementation; ``serving.backend`` may also be such a dotted path."""


def server(params: ServingParams, folder: Path) -> Server:
    """The backend that ``params.backend`` names; ``folder`` (the run's ``.coevo``) takes its logs.
    Raises ConfigError listing the known names."""
    return find_server(params.backend)(params, folder)


def find_server(backend: str) -> Callable[[ServingParams, Path], Server]:
    """What makes a server of the kind called ``backend``. Raises ConfigError if unknown."""
    found: Callable[[ServingParams, Path], Server] = find("serving.backend", backend, SERVERS)
    return found
