"""Commands as text: taking an answer apart and putting it together."""

from __future__ import annotations

import re
from typing import Any

INFEASIBLE = "error_input"


def parse(answer: str) -> list[str]:
    """The commands in an answer; commas inside parentheses don't part them."""
    braced = re.findall(r"\{(.*?)\}", answer.replace("\n", " "))
    text = ",".join(braced) if braced else answer
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def render(commands: list[str]) -> str:
    return "{" + ",".join(commands) + "}"


def path(command: str) -> str:
    """room.device.method, without the arguments."""
    return command.partition("(")[0].strip()


def device(path: str) -> str:
    """The device in a method path, which may lack a room."""
    return ("." + path).split(".")[-2]


def arguments(command: str) -> list[str]:
    inside = command.partition("(")[2].rpartition(")")[0]
    return [each.strip() for each in inside.split(",") if each.strip()]


def signatures(listing: str) -> dict[str, str]:
    """Method path -> text of its parameters, from list_methods' lines."""
    pairs = (re.match(r"\s*([\w.]+)\((.*)\)\s*$", line) for line in listing.splitlines())
    return {pair.group(1): pair.group(2) for pair in pairs if pair}


def options(parameters: str) -> list[str]:
    """The values a method's parameter may take, where its signature lists them."""
    listed = re.search(r"[\w.-]+(?:\|[\w.-]+)+", parameters)
    return listed.group(0).split("|") if listed else []


def is_answer(agent: Any, call: Any) -> bool:
    """Whether a call submits the answer, as this harness's tools spell it."""
    return bool(call.name == "final_answer" and isinstance(call.arguments.get("commands"), str))
