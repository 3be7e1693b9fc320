"""Where a language model is asked, with the key; and what an endpoint's refusal means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.errors import ConfigError
from engine.params import LLMParams, environment


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint and the model to ask of it. ``repr`` leaves the key out."""

    base_url: str
    model: str
    api_key: str = field(default="none", repr=False)
    api: Literal["chat", "responses"] = "chat"
    reasoning_effort: str | None = None
    context: int = 128_000
    timeout_s: float = 600.0

    def url(self, path: str) -> str:
        """The address of ``path``, such as ``/chat/completions``."""
        return self.base_url.rstrip("/") + path

    def clean(self, text: str) -> str:
        """``text`` without the key, should the endpoint have repeated it."""
        return text.replace(self.api_key, "[key]") if self._secret else text

    def clean_bytes(self, data: bytes) -> bytes:
        """The same for bytes."""
        return data.replace(self.api_key.encode(), b"[key]") if self._secret else data

    @property
    def _secret(self) -> bool:
        return len(self.api_key) > 7  # "none", "EMPTY": words that stand in any text


def configured(params: LLMParams, role: str, model: str | None = None) -> Endpoint:
    """The endpoint that ``role`` asks; ``model`` is the role's own. Raises ConfigError."""
    if not params.base_url:
        raise ConfigError(f"{role}: llm.base_url is not set; name an OpenAI-compatible endpoint")
    chosen = model or params.model
    if not chosen:
        raise ConfigError(f"{role}: no model is named; set llm.model or {role}.model")
    key = environment(params.api_key_env) if params.api_key_env else "none"
    if not key:
        raise ConfigError(f"{role}: the variable {params.api_key_env} (llm.api_key_env) is not set")
    return Endpoint(
        params.base_url,
        chosen,
        key.strip(),
        params.api,
        params.reasoning_effort,
        params.context,
        params.timeout_s,
    )


def worth_retrying(status: int) -> bool:
    """Whether the same request may be answered a little later."""
    return status in (408, 409, 425, 429) or status >= 500


def is_overflow(status: int, code: str | None, said: str) -> bool:
    """Whether a refusal means that the prompt is longer than the model's context."""
    if status not in (400, 413, 422):
        return False
    words = said.lower()
    return code == "context_length_exceeded" or (
        "context" in words and any(word in words for word in ("length", "maximum", "window"))
    )


def refusal(endpoint: Endpoint, status: int, said: str) -> str:
    """What an HTTP error of the endpoint means and how to mend it, on one line, without the key."""
    short = " ".join(endpoint.clean(said).split())
    short = short if len(short) <= 300 else short[:297] + "..."
    mend = "see the endpoint's own log"
    if status in (401, 403):
        mend = "check the key in the variable that llm.api_key_env names"
    elif status == 404:
        mend = (
            f"check llm.model ({endpoint.model!r}), llm.base_url and whether it has llm.api "
            f"{endpoint.api!r}"
        )
    elif status == 429:
        mend = "wait, or raise the endpoint's rate limit or credit"
    elif is_overflow(status, None, short):
        mend = f"set llm.context to what the model takes (it is {endpoint.context})"
    return f"{endpoint.base_url} answered {status} ({short}); {mend}"
