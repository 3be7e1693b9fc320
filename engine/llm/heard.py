"""What a streamed reply amounts to, put together from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.llm.wire import Tokens, objects, output, tokens


class Heard:
    """Takes the events of either API. ``whole`` says whether the model came to its end."""

    def __init__(self) -> None:
        self.tokens: Tokens | None = None
        self.whole = False
        self.bytes = 0
        self._items: list[Any] = []
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}

    def event(self, data: Mapping[str, Any]) -> None:
        """Take one event's object."""
        kind = data.get("type")
        if isinstance(kind, str) and kind.startswith("response."):
            self._response(kind, data)
        else:
            self._chunk(data)

    def output(self) -> list[Any]:
        """The reply's messages or items, as far as they came."""
        if not (self._text or self._calls):
            return self._items
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._text)}
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        return [*self._items, message]

    def _response(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind.endswith(".delta") and isinstance(data.get("delta"), str):
            self.bytes += _size(data["delta"])
            if kind == "response.output_text.delta":
                self._text.append(data["delta"])
        elif kind == "response.output_item.done":
            self._items += objects([data.get("item")])
            self._text.clear()
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self.whole = True
            for body in objects([data.get("response")]):
                self.tokens = tokens(body) or self.tokens
                self._items = output(body) or self._items
            self._text.clear()

    def _chunk(self, data: Mapping[str, Any]) -> None:
        self.tokens = tokens(data) or self.tokens
        for choice in objects(data.get("choices")):
            delta = next(iter(objects([choice.get("delta")])), {})
            for name in ("content", "reasoning_content", "reasoning"):
                piece = delta.get(name)
                if isinstance(piece, str):
                    self.bytes += _size(piece)
                    if name == "content":
                        self._text.append(piece)
            for call in objects(delta.get("tool_calls")):
                self._call(call)
            self.whole = self.whole or choice.get("finish_reason") is not None

    def _call(self, delta: Mapping[str, Any]) -> None:
        function = next(iter(objects([delta.get("function")])), {})
        index = delta.get("index")
        call = self._calls.setdefault(
            index if isinstance(index, int) else 0,
            {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
        )
        call["id"] = call["id"] or delta.get("id") or ""
        for name in ("name", "arguments"):
            piece = str(function.get(name) or "")
            call["function"][name] += piece
            self.bytes += _size(piece)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
