"""A conversation in which a language model works by tool calls, and wrong ones are sent back."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from engine.llm.chat import Reply
from engine.llm.wire import storable
from kernel.contract import Message, RawToolCall, ToolCall, ToolSchema
from kernel.tools import parameters, parse, validate

BYTES_A_TOKEN = 3
"""A cautious estimate: English and code have about four."""

TRIES = 3
"""Wrong answers in a row until a model is given up."""

T = TypeVar("T")


class Asked(Protocol):
    """What a dialogue needs of an ``engine.llm.chat.LLM``."""

    async def ask(
        self,
        role: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        *,
        session: str = "",
    ) -> Reply:
        """The reply to chat messages. Raises ModelError or BudgetSpent, which end the stage."""
        ...


class SentBack(Exception):
    """What a model proposed can't be taken; the message tells it why."""


class GivenUp(Exception):
    """A model was wrong too many times in a row; the message is the last reason."""


@dataclass
class _Round:
    """What became of the calls of one reply."""

    taken: bool = True
    reason: str = ""


class Dialogue:
    """One session of a role: its messages, the model's replies and what its calls gave."""

    def __init__(
        self, llm: Asked, role: str, opening: Sequence[Message], *, session: str = ""
    ) -> None:
        self._llm, self._role, self._session = llm, role, session
        self.messages: list[Message] = list(opening)
        self._wrong, self._last = 0, _Round()

    @property
    def size(self) -> int:
        """The length of all messages so far, in UTF-8 bytes of JSON."""
        return sum(len(json.dumps(each, ensure_ascii=False).encode()) for each in self.messages)

    def say(self, text: str) -> None:
        """Tell the model something before it is asked again."""
        self.messages.append({"role": "user", "content": text})

    async def calls(self, tools: Sequence[ToolSchema]) -> list[ToolCall]:
        """Ask once. The calls of the reply that fit their tools' schemas, each to be answered or
        refused; the others are refused here. Raises GivenUp where the last ``TRIES`` replies
        held nothing that could be taken."""
        self._wrong = 0 if self._last.taken else self._wrong + 1
        if self._wrong >= TRIES:
            raise GivenUp(self._last.reason)
        self._last = _Round(taken=False)
        reply = await self._llm.ask(self._role, self.messages, tools, session=self._session)
        self.messages.append(_sendable(reply))
        if not reply.calls:
            names = ", ".join(tool["function"]["name"] for tool in tools)
            self._last.reason = f"no tool was called; call one of: {names}"
            self.say(self._last.reason)
        return list(self._fitting(reply.calls, tools))

    def answer(self, call: ToolCall, text: str) -> None:
        """What a call gave."""
        self._last.taken = True
        self._reply(call.id, text)

    def refuse(self, call: ToolCall, reason: str) -> None:
        """Why a call can't be taken."""
        self._last.reason = reason
        self._reply(call.id, f"not taken: {reason}")

    async def settle(self, tool: ToolSchema, check: Callable[[Mapping[str, Any]], T]) -> T:
        """Ask until ``check`` takes the arguments of a call. Raises GivenUp."""
        settled: list[T] = []
        while not settled:
            for call in await self.calls([tool]):
                try:
                    settled.append(check(call.arguments))
                except SentBack as error:
                    self.refuse(call, str(error))
                else:
                    self.answer(call, "taken")
        return settled[-1]

    def _reply(self, id: str, text: str) -> None:
        self.messages.append({"role": "tool", "tool_call_id": id, "content": text})

    def _fitting(
        self, calls: Sequence[RawToolCall], tools: Sequence[ToolSchema]
    ) -> Iterator[ToolCall]:
        schemas = parameters(tools)
        for call in calls:
            try:
                if call.name not in schemas:
                    known = ", ".join(schemas)
                    raise ValueError(f"there is no tool {call.name!r} now, only {known}")
                arguments = validate(call.arguments, schemas[call.name])
            except ValueError as error:
                self.refuse(ToolCall(call.id, call.name, {}), str(error))
            else:
                yield ToolCall(call.id, call.name, storable(arguments))


def _sendable(reply: Reply) -> Message:
    """The reply as it can be sent again: servers refuse a history with arguments that are no
    JSON."""
    calls = tuple(
        call if parse(call.arguments) is not None else replace(call, arguments="{}")
        for call in reply.calls
    )
    return replace(reply, calls=calls).message


def tool(
    name: str, description: str, properties: Mapping[str, Any], optional: Collection[str] = ()
) -> ToolSchema:
    """A function tool; ``optional`` properties may be left out."""
    required = [key for key in properties if key not in optional]
    schema = {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    }
