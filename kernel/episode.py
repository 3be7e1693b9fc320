"""The host's end of one rollout: brokers model and world, and writes the record.

Whatever comes over the pipe may be hostile. Turns, violations, tokens and the answer are counted
here, from what the endpoint and the world said; a message of an unknown shape ends the rollout.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from kernel import mismatch, tools, turn, wire
from kernel.clock import Clock
from kernel.contract import (
    ChatModel,
    Completion,
    ContextLengthExceeded,
    HostWorld,
    Limits,
    RequestRefused,
    Sampling,
)
from kernel.trajectory import Event, Requests, Trajectory

_ERROR_CHARS = 2000
_TEXT_CHARS = 2**18  # no default observation is longer
_MAX_OPEN = 64  # requests of one rollout at the same time


class _Fault(Exception):
    """The worker broke the protocol."""


class Episode:
    """One rollout as the host sees it. ``over`` is done when the harness need not run on."""

    def __init__(
        self, model: ChatModel, world: HostWorld, limits: Limits, sampling: Sampling, seed: int
    ) -> None:
        self.model, self.world, self.limits = model, world, limits
        self.sampling, self.seed = sampling, seed
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.end, self.error, self.code = "", "", ""
        self.requests = self.calls = self.turns = self.violations = 0
        self.prompt_tokens = self.completion_tokens = self._stored = 0
        self.refused: set[str] = set()
        self.inspected: list[str] | None = None
        self.clock = Clock(limits.wall_s)
        self._events: list[Event] = []
        self._packer = Requests()
        self._world_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def touched(self) -> bool:
        """Whether the model or the world has been used, so that a rerun needs a fresh world."""
        return self.requests + self.calls > 0

    def finish(self, end: str, error: str = "", code: str = "") -> None:
        """End the rollout; the first word counts."""
        if not self.over.done():
            self.end, self.error, self.code = end, error[-_ERROR_CHARS:], code
            self.over.set_result(None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the worker until it ends, breaks the protocol, or is cancelled."""
        try:
            while (frame := await wire.read(reader, self.limits.message_bytes)) is not None:
                self._dispatch(frame, writer)
                if self.over.done():
                    return
        except (_Fault, wire.FrameError) as error:
            self.finish("harness_error", f"protocol: {error}")

    async def stop(self) -> None:
        """Cancel what is still under way for this rollout."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _dispatch(self, frame: wire.Frame, writer: asyncio.StreamWriter) -> None:
        kind = frame.get("op")
        if kind == "end":
            self.finish("end", _text(frame, "error"), _text(frame, "code"))
        elif kind == "inspected":
            self.inspected = [str(line)[:500] for line in _typed(frame, "problems", list)][:50]
            self.finish("end")
        elif kind in ("chat", "call", "exec"):
            if not isinstance(frame.get("id"), int) or len(self._tasks) >= _MAX_OPEN:
                raise _Fault("a request without a number, or too many at once")
            work = self._admit(kind, frame)
            if work is not None:
                task = asyncio.ensure_future(self._answer(work, frame["id"], writer))
                self._tasks.add(task)
                task.add_done_callback(self._ended)
        else:
            raise _Fault(f"unknown message {str(kind)[:50]!r}")

    def _admit(self, kind: str, frame: wire.Frame) -> Awaitable[dict[str, Any]] | None:
        """Count a request; the work it asks for, or None when it is one turn too many."""
        if kind == "chat":
            if self.requests >= self.limits.turns:
                self.finish("turn_limit")
                return None
            self.requests += 1
            return self._chat(self.requests - 1, frame)
        self.calls += 1
        if self.calls > 100 + 50 * self.limits.turns:
            raise _Fault(f"more than {self.calls - 1} calls to the world")
        return self._in_turn(self._call if kind == "call" else self._exec, frame)

    async def _answer(
        self, work: Awaitable[dict[str, Any]], number: int, writer: asyncio.StreamWriter
    ) -> None:
        answer = await work
        if not self.over.done() and not writer.is_closing():
            writer.write(wire.encode({**answer, "id": number}))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A request's task is done: faults end the rollout, the engine's own errors end the run."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, _Fault):
            self.finish("harness_error", f"protocol: {error}")
        elif error is not None and not self.over.done():
            self.over.set_exception(error)
            self.over.exception()  # known: a rollout that is cancelled now needn't tell it again

    async def _chat(self, number: int, frame: wire.Frame) -> dict[str, Any]:
        if self.world.answer is not None:  # turns after it could only thin the violations out
            self.finish("answered")
            return {}
        messages, offered = _typed(frame, "messages", list), _typed(frame, "tools", list)
        self._keep(self._packer.pack(number, messages, offered))
        started = time.monotonic()
        try:
            turn.check_request(messages, offered)
            with self.clock.paused():
                completion = await self.model.complete(
                    messages, offered, self.sampling, turn.seed(self.seed, number)
                )
        except (ContextLengthExceeded, RequestRefused) as error:
            self.refused.add(error.code)
            text = str(error)[:_ERROR_CHARS]
            refusal = {"kind": "refused", "turn": number, "code": error.code, "error": text}
            self._events.append(refusal)
            return {"raise": error.code, "error": text}
        return self._reply(number, completion, time.monotonic() - started)

    def _reply(self, number: int, completion: Completion, latency_s: float) -> dict[str, Any]:
        flag = mismatch.violation(completion, self.world.rules)
        self.turns += 1
        self.violations += bool(flag)
        self.prompt_tokens += completion.prompt_tokens
        self.completion_tokens += completion.completion_tokens
        message, calls = turn.message(number, completion)
        event: Event = {
            "kind": "reply",
            "turn": number,
            "message": message,
            "violation": flag,
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": completion.completion_tokens,
            "latency_s": round(latency_s, 4),
            "finish_reason": completion.finish_reason,
        }
        if completion.reasoning:
            event["reasoning"] = completion.reasoning
        self._events.append(event)
        return {"message": message, "tool_calls": calls}

    async def _in_turn(
        self, handler: Callable[[wire.Frame], Awaitable[dict[str, Any]]], frame: wire.Frame
    ) -> dict[str, Any]:
        async with self._world_lock:  # a world is one state; its calls come one by one
            return await handler(frame)

    async def _call(self, frame: wire.Frame) -> dict[str, Any]:
        name, arguments = _text(frame, "name"), _typed(frame, "arguments", dict)
        observation = self._cut(await self._observe(name, arguments))
        event = {"kind": "call", "turn": self.requests, "name": name, "arguments": arguments}
        self._keep({**event, "observation": observation})
        return {"observation": observation}

    async def _observe(self, name: str, arguments: dict[str, Any]) -> str:
        if self.world.answer is not None:
            return "refused: the answer is already recorded"
        schemas = tools.parameters(self.world.rules.tools)
        if name not in schemas:
            return f"error: there is no tool {name!r}; available: {', '.join(schemas) or 'none'}"
        try:
            valid = tools.validate(arguments, schemas[name])
        except ValueError as error:
            return f"error: arguments of {name}: {error}"
        return await self.world.call(name, valid)

    async def _exec(self, frame: wire.Frame) -> dict[str, Any]:
        command = _text(frame, "command")
        if self.world.answer is not None:
            stdout, stderr, code = "", "refused: the answer is already recorded", 1
        else:
            result = await self.world.exec(command)
            stdout, stderr = self._cut(result.stdout), self._cut(result.stderr)
            code = result.return_code
        outcome = {"stdout": stdout, "stderr": stderr, "return_code": code}
        self._keep({"kind": "exec", "turn": self.requests, "command": command, **outcome})
        return outcome

    def _keep(self, event: Event) -> None:
        """Record what the harness said and saw; it can't fill memory and journal with it."""
        event = _shortened(event)
        self._stored += len(json.dumps(event))
        if self._stored > self.limits.record_bytes:
            raise _Fault(f"a record of {self._stored} bytes in all")
        self._events.append(event)

    def _cut(self, text: str) -> str:
        data = text.encode("utf-8", "replace")
        limit = self.limits.output_bytes
        if len(data) <= limit:
            return data.decode()
        return data[:limit].decode("utf-8", "ignore") + f"\n[cut: {len(data) - limit} bytes more]"

    def trajectory(self) -> Trajectory:
        """The record, once it is over."""
        end = self._end()
        return Trajectory(
            events=tuple(self._events),
            end=end,
            answer=self.world.answer,
            turns=self.turns,
            violations=self.violations,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            wall_s=round(time.monotonic() - self.clock.started, 4),
            error=self.error,
        )

    def _end(self) -> str:
        if self.world.answer is not None:
            return "answered"
        if self.end != "end":
            return self.end
        if self.error:
            # The worker's own word for the error counts only if the host saw such a refusal.
            code = self.code if self.code in self.refused else ""
            known = {
                ContextLengthExceeded.code: "context_overflow",
                RequestRefused.code: "model_error",
            }
            return known.get(code, "harness_error")
        return "no_answer" if self.world.rules.wants_answer else "answered"


def _shortened(value: Any) -> Any:
    """A JSON value whose long texts are without their middle."""
    if isinstance(value, str):
        cut = len(value) - _TEXT_CHARS
        if cut <= 0:
            return value
        half = _TEXT_CHARS // 2
        return f"{value[:half]}\n[the record leaves out {cut} characters]\n{value[-half:]}"
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    return [_shortened(each) for each in value] if isinstance(value, list) else value


def _typed(frame: wire.Frame, key: str, kind: type) -> Any:
    value = frame.get(key)
    if not isinstance(value, kind):
        raise _Fault(f"{key} is no {kind.__name__}")
    return value


def _text(frame: wire.Frame, key: str) -> str:
    text: str = _typed(frame, key, str)
    return text
