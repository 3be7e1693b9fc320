"""A language model that the engine itself asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError
from engine.llm.answered import Answered, request_key
from engine.llm.endpoint import Endpoint, is_overflow, refusal, worth_retrying
from engine.llm.meter import Account, Meter
from engine.llm.usage import Caps, Usage
from engine.llm.wire import (
    Answer,
    answer,
    as_functions,
    as_items,
    guess,
    output,
    storable,
    tokens,
)
from engine.serving.client import Retry
from kernel.contract import Message, RawToolCall, ToolSchema


class ContextOverflow(ModelError):
    """The messages are longer than the model's context; nothing was answered."""


@dataclass(frozen=True)
class Reply:
    """What the model said; a call's ``arguments`` is unparsed text."""

    text: str
    calls: tuple[RawToolCall, ...]
    usage: Usage

    @property
    def message(self) -> Message:
        """The reply as a chat message, to be put behind those that were sent."""
        message: Message = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.calls
            ]
        return message


class LLM:
    """Asks one endpoint, by the API that it names. Each try is a call that the meter counts; what
    ``answered`` holds is given again instead, and counts no more."""

    def __init__(
        self,
        endpoint: Endpoint,
        meter: Meter,
        retry: Retry | None = None,
        answered: Answered | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._meter, self._answered = meter, answered
        self._retry = retry or Retry()

    async def ask(
        self,
        role: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        *,
        session: str = "",
        caps: Caps | None = None,
    ) -> Reply:
        """The reply to chat ``messages``; 429, 5xx, time-outs and cut connections are tried again.

        Raises BudgetSpent before a call that a cap forbids, ContextOverflow, and ModelError, which
        names the role and the cause. ``caps`` are this call's own, over its tries.
        """
        request = self._request(messages, tools)
        if self._answered is None:
            return await self._answer(request, self._meter.account(role, session, caps))
        key = request_key(session, self.endpoint.api, request)
        known = self._answered.take(key)
        if known is not None:
            return Reply(known.text, known.calls, Usage())
        reply = await self._answer(request, self._meter.account(role, session, caps))
        self._answered.keep(key, session, messages, Answer(reply.text, reply.calls))
        return reply

    async def _answer(self, request: Mapping[str, Any], account: Account) -> Reply:
        import openai

        endpoint = self.endpoint
        async with openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key,
            max_retries=0,
            timeout=openai.Timeout(endpoint.timeout_s, connect=10.0),
        ) as client:
            return await self._tries(client, request, account)

    def _request(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> dict[str, Any]:
        endpoint, effort = self.endpoint, self.endpoint.reasoning_effort
        if endpoint.api == "responses":
            request: dict[str, Any] = {"input": as_items(list(messages)), "store": False}
            request |= {"reasoning": {"effort": effort}} if effort else {}
            request |= {"tools": as_functions(list(tools))} if tools else {}
        else:
            request = {"messages": list(messages)}
            request |= {"reasoning_effort": effort} if effort else {}
            request |= {"tools": list(tools)} if tools else {}
        return {"model": endpoint.model, **request}

    async def _tries(self, client: Any, request: Mapping[str, Any], account: Account) -> Reply:
        import openai

        cause = ""
        for attempt in range(self._retry.attempts):
            asked = None
            try:
                return await self._once(client, request, account)
            except openai.APIStatusError as error:
                said, status = str(error.message), error.status_code
                cause = refusal(self.endpoint, status, said)
                if not worth_retrying(status):
                    overflow = is_overflow(status, error.code, said)
                    raise self._failure(account, cause, overflow) from None
                asked = _seconds(error.response.headers.get("retry-after"))
            except openai.APITimeoutError:
                limit = f"{self.endpoint.timeout_s:g} s (llm.timeout_s)"
                cause = f"{self.endpoint.base_url}: no answer within {limit}"
            except openai.APIError as error:  # no connection, cut off, not JSON
                why = " ".join(str(error.__cause__ or error).split()) or type(error).__name__
                cause = self.endpoint.clean(f"{self.endpoint.base_url}: no answer ({why})")
            if attempt + 1 < self._retry.attempts:
                await asyncio.sleep(self._retry.wait(attempt, asked))
        raise self._failure(account, f"{cause}, {self._retry.attempts} times", False)

    async def _once(self, client: Any, request: Mapping[str, Any], account: Account) -> Reply:
        """One call, counted whatever becomes of it."""
        ticket = account.admit(self.endpoint.model)
        answered = False
        try:
            if self.endpoint.api == "responses":
                reply = await client.responses.create(**request)
            else:
                reply = await client.chat.completions.create(**request)
            if isinstance(reply, str):
                raise self._failure(account, f"{self.endpoint.base_url} answers no JSON", False)
            body = reply.model_dump(mode="json", exclude_none=True)
            items = storable(json.loads(self.endpoint.clean(json.dumps(output(body)))))
            counted = tokens(body)
            answered = True
        finally:
            if not answered:
                account.fail(ticket)
        used = account.charge(
            ticket,
            *(counted or guess(len(str(request).encode()), len(str(items).encode()))),
            guessed=counted is None,
        )
        said = answer(items)
        return Reply(said.text, said.calls, used)

    def _failure(self, account: Account, cause: str, overflow: bool) -> ModelError:
        who = f"{account.role} {account.session}".strip()
        kind = ContextOverflow if overflow else ModelError
        return kind(f"{who}: {cause}; what had finished is kept, `dvc repro` goes on from there")


def _seconds(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
