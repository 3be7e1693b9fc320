"""Generation 0 for failure attribution: a summary of the log, one conversation.

The model first sees who speaks at which step, and nothing of what is said. It reads steps with
inspect and names the responsible agent and the decisive step with final_answer; mechanisms reach
the same tools through the world.

An ``Agent`` holds one conversation. It does nothing clever on its own; modules under
``mechanisms/`` named in ``MECHANISMS`` take part through hooks, in list order. A module has any of

    prepare(agent, world)           async, before the first turn: look things up
    rank(agent, examples)           -> all bundled examples, the most useful first
    arrange(agent, examples)        -> those that are shown, in the order they are shown
    context(agent, sections)        -> the sections of the task message, by name
    request(agent, messages)        -> the messages of this turn's request
    reply(agent, message, calls)    -> the calls to carry out
    recover(agent, message)         -> what to tell the model after a turn without a call, or None
    call(agent, call, world)        async -> the call; or text, told to the model in its place
    observation(agent, call, text)  -> the observation as the model sees it
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

SETTINGS = {"max_turns": 20, "question_chars": 600, "observation_chars": 1600}
MECHANISMS: list[str] = []
EXAMPLES_SHOWN = 1
CONTEXT_ORDER = ["question", "steps", "notes"]
OFFERED_TOOLS: list[str] = []  # names; empty: all of them
READ_TOOL, ANSWER_TOOL, ANSWER_FIELD = "inspect", "final_answer", "step"

SYSTEM = """\
A team of agents failed at a question. Find the decisive error: the first wrong step that nobody
put right afterwards. Later steps that only go on with its result are not to blame.
inspect shows what was said at the steps you list. Then call final_answer with the agent who made
the error and the id of the step."""


class Harness:
    """What is known of a log before anything is inspected: question, agents, who speaks when."""

    def __init__(self, trace: dict[str, Any]) -> None:
        self.question = str(trace.get("question", ""))
        self.steps = {int(each["step"]): str(each["agent"]) for each in trace.get("steps", [])}
        self.agents = list(dict.fromkeys(self.steps.values()))

    def summary(self) -> str:
        """Step ids with their agents; neighbouring steps of one agent share a line."""
        lines: list[str] = []
        runs: list[tuple[int, int, str]] = []
        for step, agent in self.steps.items():
            if runs and runs[-1][2] == agent and runs[-1][1] == step - 1:
                runs[-1] = (runs[-1][0], step, agent)
            else:
                runs.append((step, step, agent))
        for first, last, agent in runs:
            lines.append(f"{first}: {agent}" if first == last else f"{first}-{last}: {agent}")
        return "\n".join(lines)


class Agent:
    """One conversation: ``initialize`` once, then ``step`` and ``receive_tool_result`` in turn."""

    def __init__(self, settings: dict[str, Any], client: Any, harness: Harness) -> None:
        self.settings, self.client, self.harness = dict(settings), client, harness
        self.mechanisms = [importlib.import_module(f"mechanisms.{name}") for name in MECHANISMS]
        self.bundle = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
        self.facts: dict[str, Any] = {}  # what mechanisms looked up in the world
        self.turns, self.finished = 0, False

    def initialize(self, instruction: str, tools: list[Any]) -> None:
        self.instruction, self.all_tools = instruction, tools
        self.tools = [
            tool for tool in tools if tool["function"]["name"] in OFFERED_TOOLS or not OFFERED_TOOLS
        ]
        self.calls: list[Any] = []

    async def prepare(self, world: Any) -> None:
        """Let the mechanisms look around, then open the conversation."""
        for hook in self.hooks("prepare"):
            await hook(self, world)
        self.messages = [{"role": "system", "content": SYSTEM}]
        examples = self.fold("rank", self.bundle)[:EXAMPLES_SHOWN]
        for number, example in enumerate(self.fold("arrange", examples)):
            self.messages += worked(number, example)
        sections = {
            "question": f"Question: {clip(self.instruction, self.settings['question_chars'])}",
            "steps": f"Steps:\n{self.harness.summary()}",
            "notes": "",
        }
        self.messages.append({"role": "user", "content": ordered(self.fold("context", sections))})

    async def step(self) -> dict[str, Any]:
        """One model request; returns the model's own message."""
        self.turns += 1
        reply = await self.client.chat(self.fold("request", list(self.messages)), tools=self.tools)
        self.messages.append(reply.message)
        self.calls = list(reply.tool_calls)
        for hook in self.hooks("reply"):
            self.calls = hook(self, reply.message, self.calls)
        return dict(reply.message)

    def receive_tool_result(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def recover(self, message: dict[str, Any]) -> bool:
        """After a turn without a call: whether some mechanism found a way to go on."""
        for hook in self.hooks("recover"):
            text = hook(self, message)
            if text is not None:
                self.messages.append({"role": "user", "content": text})
                return True
        return False

    async def execute(self, call: Any, world: Any) -> None:
        """Carry out one call, unless a mechanism answers it in the world's place."""
        for hook in self.hooks("call"):
            call = await hook(self, call, world)
            if isinstance(call, str):
                self.messages.append({"role": "user", "content": call})
                return
        text = await world.call(call.name, call.arguments)
        for hook in self.hooks("observation"):
            text = hook(self, call, text)
        most = self.settings["observation_chars"]
        shown = begun(text, most) if "start" in call.arguments else clip(text, most)
        self.receive_tool_result({"role": "tool", "tool_call_id": call.id, "content": shown})
        self.finished = call.name == ANSWER_TOOL and not text.startswith("error:")

    def hooks(self, name: str) -> list[Any]:
        return [getattr(module, name) for module in self.mechanisms if hasattr(module, name)]

    def fold(self, name: str, value: Any) -> Any:
        for hook in self.hooks(name):
            value = hook(self, value)
        return value


def clip(text: str, most: int) -> str:
    """A long text's beginning and end."""
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} [...] {text[len(text) - most // 3 :]}"


def begun(text: str, most: int) -> str:
    """A long text's beginning, of an observation that may be read on."""
    return text if len(text) <= most else f"{text[:most]} [... read on with a later start]"


def ordered(sections: dict[str, str]) -> str:
    return "\n".join(sections[name] for name in CONTEXT_ORDER if sections.get(name))


def worked(number: int, example: dict[str, Any]) -> list[dict[str, Any]]:
    """An example as a conversation: its summary, one look at its steps, its answer."""
    log = [(step, agent, text) for step, (agent, text) in enumerate(example["log"])]
    summary = "\n".join(f"{step}: {agent}" for step, agent, _ in log)
    task = ordered(
        {"question": f"Question: {example['instruction']}", "steps": f"Steps:\n{summary}"}
    )
    seen = "\n".join(f"[{step}] {agent}: {text}" for step, agent, text in log)
    answer = {"agent": log[example["step"]][1], ANSWER_FIELD: example["step"]}
    looking = f"look{number}"
    return [
        {"role": "user", "content": task},
        calling(looking, READ_TOOL, {"step_ids": [step for step, _, _ in log]}),
        {"role": "tool", "tool_call_id": looking, "content": seen},
        calling(f"example{number}", ANSWER_TOOL, answer),
    ]


def calling(identity: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """An assistant turn that makes one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": identity, "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def build_harness(trace: dict[str, Any]) -> Harness:
    return Harness(trace)


async def run(instruction: str, model: Any, world: Any) -> None:
    agent = Agent(SETTINGS, model, build_harness(world.public))
    agent.initialize(instruction, world.tools)
    await agent.prepare(world)
    while not agent.finished and agent.turns < agent.settings["max_turns"]:
        message = await agent.step()
        if not agent.calls and not agent.recover(message):
            return
        while agent.calls and not agent.finished:
            await agent.execute(agent.calls.pop(0), world)
