"""An endpoint that somebody else runs: any OpenAI-compatible base URL, its key from a variable."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.errors import ConfigError, ModelError
from engine.params import ServingParams, environment
from engine.serving.base import Progress, silent
from engine.serving.client import Endpoint, OpenAIModel


class ExternalServer:
    """``serving.model`` is the id to ask for. With ``{path}``, ``{digest}`` or ``{digest12}`` in
    it, the endpoint is trusted to serve the checkpoint of that name, and its replies must repeat
    the id. Without one it serves one fixed model, and a second checkpoint is refused: its score
    would be the first one's."""

    name = "external"

    def __init__(self, params: ServingParams, folder: Path) -> None:
        if not params.base_url:
            raise ConfigError("serving.base_url: needed with serving.backend: external")
        if not params.model:
            raise ConfigError("serving.model: needed with serving.backend: external")
        key = environment(params.api_key_env) if params.api_key_env else "none"
        if not key:
            raise ConfigError(f"serving.api_key_env: {params.api_key_env} isn't set; export it")
        self._base_url, self._model, self._key = params.base_url, params.model, key
        self._timeout_s = params.timeout_s
        self._parallel = params.concurrency
        self._fixed: str | None = None
        self._models: dict[str, OpenAIModel] = {}  # a client each: its connections are reused

    @property
    def parallel(self) -> int:
        return self._parallel

    @property
    def fingerprint(self) -> str:
        where = hashlib.sha256(self._base_url.encode()).hexdigest()[:12]
        return f"external/{where}/{self._model}"

    async def start(self, progress: Progress = silent) -> None:
        """Nothing to start; a dead endpoint shows at the first request."""

    async def stop(self) -> None:
        models, self._models = self._models, {}
        for model in models.values():
            await model.close()

    def model(self, checkpoint: Path, digest: str) -> OpenAIModel:
        name = self._model
        for field, value in (
            ("{path}", str(checkpoint.resolve())),
            ("{digest}", digest),
            ("{digest12}", digest[:12]),
        ):
            name = name.replace(field, value)
        if name == self._model:
            self._fixed = self._fixed or digest
            if self._fixed != digest:
                raise ModelError(
                    f"{self._base_url} serves {name!r} alone, not checkpoint {digest[:12]}; put "
                    "{digest12} or {path} into serving.model, or use mode: harness-only"
                )
        if name not in self._models:
            proof = None if name == self._model else name
            endpoint = Endpoint(self._base_url, name, self._key, served_as=proof)
            self._models[name] = OpenAIModel(endpoint, timeout_s=self._timeout_s)
        return self._models[name]
