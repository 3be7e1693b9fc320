"""Who answers for a checkpoint: every backend speaks Chat Completions, one client talks to all."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ConfigError

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
    target = SERVERS.get(params.backend, params.backend)
    module, _, name = target.partition(":")
    if not name:
        known = ", ".join(SERVERS)
        raise ConfigError(
            f"serving.backend: unknown {params.backend!r}; known: {known}, or module:Class"
        )
    try:
        made: Server = getattr(import_module(module), name)(params, folder)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"serving.backend: {target}: {error}") from None
    return made
