"""What a harness sees of the kernel, and what the host gives the kernel to broker.

A harness workspace holds ``harness.py`` with ``async def run(instruction, model, world)``.
Everything it may touch stands in the first half of this file. The second half is the host's
side of the same conversation: the endpoint behind ``model`` and the task behind ``world``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

Message = dict[str, Any]
"""One chat message in OpenAI form; ``content`` may be text or a list of parts (images too)."""

ToolSchema = dict[str, Any]
"""One OpenAI function tool: ``{"type": "function", "function": {name, description, ...}}``."""


# --- the harness's side -----------------------------------------------------------------------


@dataclass(frozen=True)
class ToolCall:
    """One parsed tool call of a model's turn."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One model turn: the message to append to the history, and its well-formed tool calls."""

    message: Message
    tool_calls: list[ToolCall]


@dataclass(frozen=True)
class ExecResult:
    """The outcome of one shell command."""

    stdout: str
    stderr: str
    return_code: int


class ContextLengthExceeded(Exception):
    """The prompt of a request is longer than the model's context."""

    code = "context_length_exceeded"


class RequestRefused(Exception):
    """The endpoint can't read this request (a role, an image, a message order): the harness's
    fault, raised inside it."""

    code = "request_refused"


class Model(Protocol):
    """The frozen task model. Sampling, key and endpoint belong to the host."""

    async def chat(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema] | None = None
    ) -> Reply:
        """One completion, one turn. Raises ContextLengthExceeded or RequestRefused."""
        ...


class World(Protocol):
    """The task's world. ``public`` is what the task shows before any tool call (may be empty)."""

    tools: list[ToolSchema]
    public: dict[str, Any]

    async def exec(self, command: str) -> ExecResult:
        """Run a shell command; a world without a shell answers with return code 127."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a domain tool; the observation as text. A bad call gives text that says so."""
        ...


# --- the host's side --------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn. ``temperature`` 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256


@dataclass(frozen=True)
class RawToolCall:
    """A tool call as the model wrote it: ``arguments`` is unparsed text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Completion:
    """One answer of an endpoint.

    ``malformed`` is set when the text holds a tool call that can't be parsed; ``content`` then
    keeps the text as it came.
    """

    content: str
    tool_calls: tuple[RawToolCall, ...] = ()
    malformed: bool = False
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning: str = ""


class ModelUnavailable(Exception):
    """The endpoint can't be used (dead, refused, wrong key, wrong weights). Never a score."""


class ChatModel(Protocol):
    """The endpoint behind ``model.chat``."""

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        """Raises ContextLengthExceeded, RequestRefused or ModelUnavailable; retries are its own
        business."""
        ...


@dataclass(frozen=True)
class InterfaceRules:
    """The admissible interface that a domain fixes; TIMR is counted against this alone.

    ``calls_per_turn`` caps the tool calls of one turn (None: no cap); ``text_turns`` says whether
    a turn without a tool call is admissible; ``wants_answer`` whether an episode that ends without
    a submitted answer is incomplete (False where the world's state is what gets graded).
    """

    tools: tuple[ToolSchema, ...] = ()
    calls_per_turn: int | None = 1
    text_turns: bool = False
    wants_answer: bool = True


class HostWorld(Protocol):
    """One task's world on the host. Made fresh for each rollout, it holds no label."""

    public: dict[str, Any]
    rules: InterfaceRules

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str: ...

    async def exec(self, command: str) -> ExecResult: ...

    @property
    def answer(self) -> Any | None:
        """What the harness submitted (JSON-able), None before it did. The first one counts."""
        ...


@runtime_checkable
class LastingWorld(HostWorld, Protocol):
    """A world with processes or folders of its own."""

    async def settle(self) -> None:
        """The rollout is over and every process of the harness is gone: what ``answer`` is from
        now on is its answer."""
        ...

    async def close(self) -> None:
        """The last call, however the rollout ended, also when it was cancelled."""
        ...


@dataclass(frozen=True)
class Limits:
    """What one rollout may use. Bytes and seconds.

    ``wall_s`` is the harness's own time: waiting for the model's replies isn't counted, so that a
    busy endpoint is charged to nobody. ``cpu_s`` and ``memory_bytes`` hold for all processes of
    the rollout together, ``message_bytes`` for one message to the host, ``output_bytes`` for one
    observation, ``record_bytes`` for all that a record keeps of both (the model's replies aside;
    of a long text its beginning and its end).
    """

    turns: int = 20
    wall_s: float = 120.0
    cpu_s: int = 30
    memory_bytes: int = 512 * 2**20
    tmp_bytes: int = 64 * 2**20
    processes: int = 32
    message_bytes: int = 2**20
    output_bytes: int = 256 * 2**10
    record_bytes: int = 2**20
    extra: Mapping[str, Any] = field(default_factory=dict)
