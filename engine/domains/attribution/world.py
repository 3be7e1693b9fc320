"""The host's side of one log: its steps' texts on request, and the final answer.

The world is made of the texts and what is public; it never sees the label. Before ``inspect`` a
harness knows the question and who speaks at which step, and nothing of what the team said to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.contract import ExecResult, InterfaceRules, ToolSchema

SHOWN_CHARS = 16_000
"""What one observation holds of all the texts asked for."""

_MOST_IDS = 200  # more than the longest real log has


def _tool(
    name: str, description: str, properties: dict[str, Any], optional: Sequence[str] = ()
) -> ToolSchema:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS: tuple[ToolSchema, ...] = (
    _tool(
        "inspect",
        "Show what was said at these steps; long texts are cut in the middle, the fewer are asked "
        "for the less. start: the character to read on from.",
        {
            "step_ids": {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 1,
                "maxItems": _MOST_IDS,
            },
            "start": {"type": "integer", "minimum": 0},
        },
        optional=["start"],
    ),
    _tool(
        "final_answer",
        "Submit the responsible agent and the decisive step, and end the task.",
        {
            "agent": {"type": "string", "description": "Name of the responsible agent."},
            "step": {"type": "integer", "description": "Id of the decisive step."},
        },
    ),
)

RULES = InterfaceRules(tools=TOOLS, calls_per_turn=1, text_turns=False)


class AttributionWorld:
    """One rollout's world (kernel.contract.HostWorld). ``texts`` has each step's by its id."""

    def __init__(self, public: Mapping[str, Any], texts: Mapping[str, str]) -> None:
        self.public: dict[str, Any] = dict(public)
        self.rules = RULES
        self._texts = texts
        self._agents = {each["step"]: each["agent"] for each in public["steps"]}
        self._answer: dict[str, Any] | None = None

    @property
    def answer(self) -> dict[str, Any] | None:
        """The first answer submitted: ``agent`` and ``step``."""
        return self._answer

    async def exec(self, command: str) -> ExecResult:
        """There is no shell here."""
        return ExecResult("", "this world has no shell\n", 127)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool; a bad call gives text that begins with ``error:``."""
        if name == "inspect":
            return self._inspect(arguments.get("step_ids"), arguments.get("start"))
        if name == "final_answer":
            return self._submit(arguments.get("agent"), arguments.get("step"))
        return f"error: no tool is called {name!r}; there are inspect, final_answer"

    def _inspect(self, ids: Any, start: Any) -> str:
        if not isinstance(ids, list) or not ids or not all(_whole(each) for each in ids):
            return "error: step_ids must be a list of step ids, such as [0, 1]"
        if len(ids) > _MOST_IDS:
            return f"error: at most {_MOST_IDS} steps at once"
        if start is not None and (not _whole(start) or start < 0):
            return "error: start must be a number of characters, 0 or more"
        wanted = list(dict.fromkeys(ids))
        known = [each for each in wanted if each in self._agents]
        unknown = [str(each)[:20] for each in wanted if each not in self._agents]
        if not known:
            first, last = min(self._agents), max(self._agents)
            return f"error: no such step: {', '.join(unknown)}; there are {first} to {last}"
        texts = [self._texts[str(each)] for each in known]
        shown = fitted(texts, SHOWN_CHARS) if start is None else onward(texts, start, SHOWN_CHARS)
        lines = [
            f"[{each}] {self._agents[each]}: {text}"
            for each, text in zip(known, shown, strict=True)
        ]
        return "\n".join([*lines, *(f"[{each}] no such step" for each in unknown)])

    def _submit(self, agent: Any, step: Any) -> str:
        if not isinstance(agent, str) or not agent.strip():
            return "error: agent must be a name"
        if not _whole(step):
            return "error: step must be a step id"
        if self._answer is not None:
            return "already recorded: the first answer counts"
        self._answer = {"agent": agent, "step": step}
        return "recorded"


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def fitted(texts: Sequence[str], room: int) -> list[str]:
    """The texts within ``room`` characters together: short ones whole, what they leave is shared
    evenly by the long ones, which keep their beginning and end."""
    share = _share([len(text) for text in texts], room)
    return [_cut(text, share) for text in texts]


def onward(texts: Sequence[str], start: int, room: int) -> list[str]:
    """The texts from character ``start`` on, within ``room`` together as above; those that are cut
    keep their beginning and say from where to read on."""
    rest = [text[start:] for text in texts]
    share = _share([len(text) for text in rest], room)
    return [
        f"[the text ends at {len(text)}]"
        if start and start >= len(text)
        else _head(left, share, start)
        for text, left in zip(texts, rest, strict=True)
    ]


def _share(sizes: Sequence[int], room: int) -> int:
    """The most that each of them may have, so that all together have no more than ``room``."""
    share, left = 0, room
    for place, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - place)
        if size > share:
            break
        left -= size
        share = size
    return share


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 3
    head, end = text[: most - tail], text[len(text) - tail :]
    gone = f"{len(text) - most} characters left out; start {len(head)} reads on"
    return f"{head} [... {gone} ...] {end}"


def _head(text: str, most: int, start: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]} [... {len(text) - most} more characters; start {start + most} reads on]"
