"""Generation 0 for smart homes: a compact home index, a few worked examples, one conversation.

The model may look the home up with the read-only tools inspect_home and list_methods, and submits
its commands with final_answer; mechanisms reach the same tools through the world.

An ``Agent`` holds one conversation. It does nothing clever on its own; modules under
``mechanisms/`` named in ``MECHANISMS`` take part through hooks, in list order. A module has any of

    split(agent, instruction)       -> its parts, which get one conversation each
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

SETTINGS = {"max_turns": 20}
MECHANISMS: list[str] = []
EXAMPLES_SHOWN = 4
CONTEXT_ORDER = ["home", "notes", "instruction"]
OFFERED_TOOLS: list[str] = []  # names; empty: all of them
ANSWER_TOOL, ANSWER_FIELD = "final_answer", "commands"

SYSTEM = """\
You control the devices of a home. Carry out the user's instruction.
Write one command for each thing that is asked: room.device.method(value).
Where the home has no such device or method, write error_input in place of the command.
Submit all commands at once, in braces and separated by commas, with final_answer.
inspect_home shows the state of a room and list_methods the methods of its devices."""


class Agent:
    """One episode: ``initialize`` once, then ``step`` and ``receive_tool_result`` in turn."""

    def __init__(self, settings: dict[str, Any], client: Any) -> None:
        self.settings, self.client = dict(settings), client
        self.mechanisms = [importlib.import_module(f"mechanisms.{name}") for name in MECHANISMS]
        self.bundle = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
        self.facts: dict[str, Any] = {}  # what mechanisms looked up in the world
        self.turns, self.finished = 0, False

    def initialize(self, instruction: str, public_home: dict[str, Any], tools: list[Any]) -> None:
        self.request_text, self.home, self.all_tools = instruction, public_home, tools
        self.tools = [
            tool for tool in tools if tool["function"]["name"] in OFFERED_TOOLS or not OFFERED_TOOLS
        ]
        self.parts, self.answers = [instruction], []
        self.begin()

    async def prepare(self, world: Any) -> None:
        """Let the mechanisms look around, then open the first part's conversation."""
        for hook in self.hooks("split"):
            self.parts = [piece for part in self.parts for piece in hook(self, part)]
        for hook in self.hooks("prepare"):
            await hook(self, world)
        self.begin()

    def begin(self) -> None:
        """Open the conversation for the first part that is left."""
        self.instruction, self.calls = self.parts[0], []
        self.messages = [{"role": "system", "content": SYSTEM}]
        examples = self.fold("rank", self.bundle)[:EXAMPLES_SHOWN]
        for number, example in enumerate(self.fold("arrange", examples)):
            self.messages.append({"role": "user", "content": self.task_text(example)})
            self.messages.append(answer_message(f"example{number}", example["commands"]))
        self.messages.append({"role": "user", "content": self.task_text(None)})

    def task_text(self, example: dict[str, str] | None) -> str:
        """The task message: an example's own context, or the current home's."""
        if example is not None:
            sections = {"notes": example.get("notes", ""), "instruction": example["instruction"]}
        else:
            rooms = self.home.get("home", {})
            index = "; ".join(f"{room}: {', '.join(devices)}" for room, devices in rooms.items())
            sections = {"home": f"(Home: {index})", "notes": "", "instruction": self.instruction}
            sections = self.fold("context", sections)
        sections["instruction"] = f"Instruction: {sections['instruction']}"
        return "\n".join(sections[name] for name in CONTEXT_ORDER if sections.get(name))

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
        if call.name == ANSWER_TOOL and len(self.parts) > 1:
            self.answers.append(str(call.arguments.get(ANSWER_FIELD)))
            self.parts = self.parts[1:]
            self.begin()
            return
        arguments = dict(call.arguments)
        if call.name == ANSWER_TOOL and self.answers:
            arguments[ANSWER_FIELD] = ",".join([*self.answers, str(arguments.get(ANSWER_FIELD))])
        text = await world.call(call.name, arguments)
        for hook in self.hooks("observation"):
            text = hook(self, call, text)
        self.receive_tool_result({"role": "tool", "tool_call_id": call.id, "content": text})
        self.finished = call.name == ANSWER_TOOL

    def hooks(self, name: str) -> list[Any]:
        return [getattr(module, name) for module in self.mechanisms if hasattr(module, name)]

    def fold(self, name: str, value: Any) -> Any:
        for hook in self.hooks(name):
            value = hook(self, value)
        return value


def answer_message(identity: str, commands: str) -> dict[str, Any]:
    """An assistant turn that submits ``commands``."""
    function = {"name": ANSWER_TOOL, "arguments": json.dumps({ANSWER_FIELD: commands})}
    call = {"id": identity, "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def build_agent(settings: dict[str, Any], client: Any) -> Agent:
    return Agent(settings, client)


async def run(instruction: str, model: Any, world: Any) -> None:
    agent = build_agent(SETTINGS, model)
    agent.initialize(instruction, world.public, world.tools)
    await agent.prepare(world)
    while not agent.finished and agent.turns < agent.settings["max_turns"]:
        message = await agent.step()
        if not agent.calls and not agent.recover(message):
            return
        while agent.calls:
            await agent.execute(agent.calls.pop(0), world)
