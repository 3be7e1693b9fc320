"""Any OpenAI-compatible endpoint as the kernel's ``ChatModel``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.serving import calls as calling
from engine.serving.wire import outgoing
from kernel.contract import (
    Completion,
    ContextLengthExceeded,
    Message,
    ModelUnavailable,
    RawToolCall,
    RequestRefused,
    Sampling,
    ToolSchema,
)

Body = Callable[[Sampling, int], Mapping[str, Any]]
"""Sampling and seed as one endpoint spells them: fields of the request's JSON body."""


@dataclass(frozen=True)
class Retry:
    """Waits of ``base_s`` times 2, 4, … seconds, at most ``cap_s``, between ``attempts`` tries."""

    attempts: int = 5
    base_s: float = 0.5
    cap_s: float = 20.0

    def wait(self, attempt: int, asked: float | None) -> float:
        """Seconds before try ``attempt`` + 1; an endpoint's Retry-After wins up to a minute."""
        backoff = min(self.cap_s, self.base_s * float(2**attempt))
        return backoff if asked is None else min(60.0, max(asked, 0.0))


@dataclass(frozen=True)
class Endpoint:
    """Where to ask. ``served_as`` is the model id that a reply must carry (None: not checked)."""

    base_url: str
    model: str
    api_key: str = "none"
    served_as: str | None = None
    mend: str = "check that the server runs and serving.base_url names it"


def openai_body(sampling: Sampling, seed: int) -> dict[str, Any]:
    """The fields most endpoints know; ``top_k`` only where it is asked for."""
    body: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": seed,
    }
    return {**body, "top_k": sampling.top_k} if sampling.top_k else body


class OpenAIModel:
    """Chat completions with retries. Calls that the server left in the text are parsed here.

    ``complete`` retries 429, 5xx, time-outs and broken connections. It raises
    ContextLengthExceeded, ModelUnavailable (dead, refused, no such model, other weights) and
    RequestRefused for messages or tools that the endpoint can't read.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        body: Body = openai_body,
        timeout_s: float = 180.0,
        retry: Retry | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._body = body
        self._timeout_s = timeout_s
        self._retry = retry or Retry()
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        body: dict[str, Any] = dict(self._body(sampling, seed))
        request: dict[str, Any] = {"model": self._endpoint.model, "messages": outgoing(messages)}
        if tools:
            request["tools"] = list(tools)
        reply = await self._ask({**request, "extra_body": body})
        return _completion(reply, len(messages), tools)

    async def _ask(self, request: Mapping[str, Any]) -> Any:
        """The reply, after as many tries as the policy allows."""
        import openai

        last: Exception | None = None
        for attempt in range(self._retry.attempts):
            try:
                reply = await self._connection().chat.completions.create(**request)
                return self._proved(reply)
            except (openai.APIConnectionError, openai.APIResponseValidationError) as error:
                last, asked = error, None
            except openai.APIStatusError as error:
                if not _worth_retrying(error.status_code):
                    raise self._refusal(error) from error
                last, asked = error, _retry_after(error)
            if attempt + 1 < self._retry.attempts:
                await asyncio.sleep(self._retry.wait(attempt, asked))
        cause = f"{last.__cause__ or last}" if last else "no answer"
        raise ModelUnavailable(
            f"{self._endpoint.base_url}: no answer after {self._retry.attempts} tries "
            f"({_short(cause)}); {self._endpoint.mend}"
        ) from last

    def _connection(self) -> Any:
        """One client for each event loop: its pool can't outlive the loop it was made in."""
        import openai

        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = openai.AsyncOpenAI(
                base_url=self._endpoint.base_url,
                api_key=self._endpoint.api_key,
                max_retries=0,
                timeout=openai.Timeout(self._timeout_s, connect=10.0),
            )
        return self._client

    async def close(self) -> None:
        """Close idle connections."""
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.close()
        self._client = None

    def _proved(self, reply: Any) -> Any:
        wanted = self._endpoint.served_as
        if wanted is not None and reply.model != wanted:
            raise ModelUnavailable(
                f"{self._endpoint.base_url}: asked for {wanted!r}, {reply.model!r} answered; "
                "nothing was scored"
            )
        return reply

    def _refusal(self, error: Any) -> Exception:
        where, status = self._endpoint.base_url, error.status_code
        said = _short(error.message)
        if status in (400, 413, 422):
            if _is_context(error):
                return ContextLengthExceeded(said)
            return RequestRefused(f"{where} answered {status}: {said}")
        if status in (401, 403):
            mend = "check the key that serving.api_key_env names"
        else:
            mend = self._endpoint.mend
        return ModelUnavailable(f"{where} answered {status} ({said}); {mend}")


def _completion(reply: Any, turn: int, tools: Sequence[ToolSchema]) -> Completion:
    if not reply.choices:
        raise ModelUnavailable("the endpoint's reply has no choices; nothing was scored")
    choice, usage = reply.choices[0], reply.usage
    message = choice.message
    text: str = message.content or ""
    calls = [
        RawToolCall(f"call_{turn}_{i}", call.function.name, call.function.arguments or "{}")
        for i, call in enumerate(message.tool_calls or ())
        if call.function is not None
    ]
    malformed = not all(calling.well_formed(call.arguments) for call in calls)
    if malformed:
        text += "".join(_as_written(call) for call in calls)
    else:
        left = calling.parse(text, tools)
        malformed, text = left.malformed, text if left.malformed else left.content
        calls += [
            RawToolCall(f"call_{turn}_{i}", call.name, call.arguments)
            for i, call in enumerate(left.calls, start=len(calls))
        ]
    return Completion(
        content=text,
        tool_calls=() if malformed else tuple(calls),
        malformed=malformed,
        finish_reason=choice.finish_reason or "stop",
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        reasoning=_reasoning(message),
    )


def _as_written(call: RawToolCall) -> str:
    """A call with broken arguments, which the server had taken out of the text."""
    return (
        f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}</tool_call>'
    )


def _reasoning(message: Any) -> str:
    extra = message.model_extra or {}
    return str(extra.get("reasoning_content") or extra.get("reasoning") or "")


def _worth_retrying(status: int) -> bool:
    return status in (408, 409, 425, 429) or status >= 500


def _retry_after(error: Any) -> float | None:
    try:
        return float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return None


def _is_context(error: Any) -> bool:
    if error.code == ContextLengthExceeded.code:
        return True
    said = str(error.message).lower()
    return "context" in said and ("length" in said or "maximum" in said or "window" in said)


def _short(text: str) -> str:
    flat = " ".join(str(text).split())
    return flat if len(flat) <= 300 else flat[:297] + "..."
