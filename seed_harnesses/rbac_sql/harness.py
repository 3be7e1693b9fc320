"""Generation 0 for role-aware text-to-SQL: cautious rules first, else one conversation.

``Harness.route`` may settle a question by the policy rows it was built from; what it can't settle,
and every role or schema that no row knows, goes to the model. The model may try SQL with test_sql
and submits its decision with final_answer; mechanisms reach the same tools through the world.

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
import re
from pathlib import Path
from typing import Any

SETTINGS = {"max_turns": 10}
MECHANISMS: list[str] = []
EXAMPLES_SHOWN = 4
CONTEXT_ORDER = ["schema", "policy", "notes", "instruction"]
OFFERED_TOOLS: list[str] = []  # names; empty: all of them
ANSWER_TOOL, ANSWER_FIELD = "final_answer", "sql"
GENERIC = {"id", "name", "type", "code", "date", "description", "number", "value", "status"}

SYSTEM = """\
You answer questions about a database with one SQLite SELECT, for a user with limited rights.
The policy lists every column that the user may read.
If the answer needs a table or column that is not listed, call final_answer with access_granted
false. Otherwise call final_answer with access_granted true and the SELECT as sql.
test_sql runs a SELECT and shows its rows."""


class Harness:
    """Rules over policy rows (``role``, ``table``, ``operation``, ``columns``)."""

    def __init__(self, policy_rows: list[dict[str, Any]]) -> None:
        self.readable: dict[str, dict[str, set[str]]] = {}
        for row in policy_rows:
            tables = self.readable.setdefault(row["role"], {})
            if row["operation"] == "select":
                tables[row["table"].lower()] = {name.lower() for name in row["columns"]}

    def route(
        self, question: str, role: str, tables: dict[str, list[str]]
    ) -> dict[str, Any] | None:
        """The arguments of final_answer where the rules are sure, else None: the model decides."""
        if role not in self.readable or not self.knows(tables):
            return None
        readable, said = self.readable[role], words(question)
        counted = re.fullmatch(r"how many (\w+) are there ?\??", question.strip().lower())
        for table in tables:
            if counted and words(table) == words(counted[1]):
                granted = table.lower() in readable
                sql = f'SELECT count(*) FROM "{table}"' if granted else ""
                return {"access_granted": granted, "sql": sql}
        named = {
            column.lower()
            for columns in tables.values()
            for column in columns
            if column.lower() not in GENERIC and mentions(said, words(column))
        }
        may = set().union(*readable.values()) if readable else set()
        spoken = [word for table in tables for word in words(table)]
        sure = {name for name in named if len(words(name)) > 1 and set(words(name)) - set(spoken)}
        return {"access_granted": False, "sql": ""} if sure - may else None

    def knows(self, tables: dict[str, list[str]]) -> bool:
        """Whether some training policy is about these tables."""
        seen = {table for known in self.readable.values() for table in known}
        return bool(seen) and seen <= {table.lower() for table in tables}

    def parse_access(self, value: Any) -> int:
        """An access decision as 1 or 0; what can't be read denies."""
        return int(str(value).strip().lower() in ("1", "true", "yes", "granted", "allowed"))


class Agent:
    """One conversation: ``initialize`` once, then ``step`` and ``receive_tool_result`` in turn."""

    def __init__(self, settings: dict[str, Any], client: Any, harness: Harness) -> None:
        self.settings, self.client, self.harness = dict(settings), client, harness
        self.mechanisms = [importlib.import_module(f"mechanisms.{name}") for name in MECHANISMS]
        self.bundle = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
        self.facts: dict[str, Any] = {}  # what mechanisms looked up in the world
        self.turns, self.finished = 0, False

    def initialize(self, instruction: str, public: dict[str, Any], tools: list[Any]) -> None:
        self.instruction, self.public, self.all_tools = instruction, public, tools
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
            self.messages.append({"role": "user", "content": self.task_text(example)})
            self.messages.append(answer_message(f"example{number}", example))
        self.messages.append({"role": "user", "content": self.task_text(None)})

    def task_text(self, example: dict[str, Any] | None) -> str:
        """The task message: an example's own, or the present task's."""
        shown = self.public if example is None else example
        sections = {
            "schema": shown.get("schema", ""),
            "policy": f"Policy:\n{shown.get('policy') or 'nothing is granted'}",
            "notes": "",
            "instruction": self.instruction if example is None else shown["instruction"],
        }
        if example is None:
            sections = self.fold("context", sections)
        sections["instruction"] = f"Question: {sections['instruction']}"
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
        arguments = dict(call.arguments)
        if call.name == ANSWER_TOOL and "access_granted" in arguments:
            access = self.harness.parse_access(arguments["access_granted"])
            arguments["access_granted"] = bool(access)
        text = await world.call(call.name, arguments)
        for hook in self.hooks("observation"):
            text = hook(self, call, text)
        self.receive_tool_result({"role": "tool", "tool_call_id": call.id, "content": text})
        self.finished = call.name == ANSWER_TOOL and not text.startswith("error:")

    def hooks(self, name: str) -> list[Any]:
        return [getattr(module, name) for module in self.mechanisms if hasattr(module, name)]

    def fold(self, name: str, value: Any) -> Any:
        for hook in self.hooks(name):
            value = hook(self, value)
        return value


def words(text: str) -> list[str]:
    """The words of a name or a sentence, in lower case and without a plural's s."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return [word.rstrip("s") or word for word in re.findall(r"[a-z0-9]+", spaced.lower())]


def mentions(said: list[str], name: list[str]) -> bool:
    """Whether the words of a name stand side by side in a sentence."""
    size = len(name)
    return any(said[start : start + size] == name for start in range(len(said) - size + 1))


def answer_message(identity: str, example: dict[str, Any]) -> dict[str, Any]:
    """An assistant turn that submits an example's answer."""
    arguments = {"access_granted": example["access_granted"]}
    if example["access_granted"]:
        arguments[ANSWER_FIELD] = example["sql"]
    function = {"name": ANSWER_TOOL, "arguments": json.dumps(arguments)}
    call = {"id": identity, "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def build_harness(policy_rows: list[dict[str, Any]]) -> Harness:
    return Harness(policy_rows)


async def run(instruction: str, model: Any, world: Any) -> None:
    public = world.public
    harness = build_harness(public.get("policy_rows", []))
    routed = harness.route(instruction, public.get("role", ""), public.get("tables", {}))
    if routed is not None:
        await world.call(ANSWER_TOOL, routed)
        return
    agent = Agent(SETTINGS, model, harness)
    agent.initialize(instruction, public, world.tools)
    await agent.prepare(world)
    while not agent.finished and agent.turns < agent.settings["max_turns"]:
        message = await agent.step()
        if not agent.calls and not agent.recover(message):
            return
        while agent.calls and not agent.finished:
            await agent.execute(agent.calls.pop(0), world)
