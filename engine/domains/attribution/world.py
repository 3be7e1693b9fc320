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


def _tool(name: str, description: str, properties: dict[str, Any]) -> ToolSchema:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS: tuple[ToolSchema, ...] = (
    _tool(
        "inspect",
        "Show what was said at these steps; long texts are cut in the middle, the fewer are asked "
        "for the less.",
        {
            "step_ids": {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 1,
                "maxItems": _MOST_IDS,
            }
        },
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
            return self._inspect(arguments.get("step_ids"))
        if name == "final_answer":
            return self._submit(arguments.get("agent"), arguments.get("step"))
        return f"error: no tool is called {name!r}; there are inspect, final_answer"

    def _inspect(self, ids: Any) -> str:
        if not isinstance(ids, list) or not ids or not all(_whole(each) for each in ids):
            return "error: step_ids must be a list of step ids, such as [0, 1]"
        if len(ids) > _MOST_IDS:
            return f"error: at most {_MOST_IDS} steps at once"
        wanted = list(dict.fromkeys(ids))
        known = [each for each in wanted if each in self._agents]
        unknown = [str(each)[:20] for each in wanted if each not in self._agents]
        if not known:
            first, last = min(self._agents), max(self._agents)
            return f"error: no such step: {', '.join(unknown)}; there are {first} to {last}"
        texts = [self._texts[str(each)] for each in known]
        lines = [
            f"[{each}] {self._agents[each]}: {text}"
            for each, text in zip(known, fitted(texts, SHOWN_CHARS), strict=True)
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
    share, left = 0, room
    for place, size in enumerate(sorted(len(text) for text in texts)):
        share = left // (len(texts) - place)
        if size > share:
            break
        left -= size
        share = size
    return [_cut(text, share) for text in texts]


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 3
    head, end = text[: most - tail], text[len(text) - tail :]
    return f"{head} [... {len(text) - most} characters left out ...] {end}"
