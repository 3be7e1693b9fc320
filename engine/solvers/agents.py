"""Which outside agents there are, and how each is started on a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.domains import Task
from engine.editors.sessions import agents, places
from engine.editors.sessions.session import Launch
from engine.errors import ConfigError
from engine.params import Params
from engine.solvers.room import APP
from kernel.contract import InterfaceRules

AGENTS: Mapping[str, Callable[[Params], Launch]] = {
    "codex": agents.codex,
    "command": agents.command,
}

_PLACE = f"""

# Where you are
Your shell (`bash -c`) runs in the task's own container, in {APP}; use `cd` to work elsewhere in it.
Create and change files by shell commands alone (here-documents, sed, python3): anything else, such
as a patch tool, works on another file system and is lost.
"""


def launch(name: str, params: Params) -> Launch:
    """How an agent is started. Raises ConfigError for an unknown one and for what it lacks."""
    if name not in AGENTS:
        raise ConfigError(f"--agent: no agent is called {name!r}; known: {', '.join(AGENTS)}")
    made = AGENTS[name](params)
    # Codex makes its folder by `sh -c`, which would run in the task's shell.
    command = [APP if word == places.CANDIDATE else word for word in made.command]
    if command[:2] == ["sh", "-c"] and name == "codex":
        command[0] = "/bin/sh"
    return replace(made, command=tuple(command))


def prompt(task: Task, rules: InterfaceRules) -> str:
    """The task's own words, and how its shell and tools are reached."""
    others = [t["function"] for t in rules.tools if t["function"]["name"] != "bash"]
    if not others:
        return task.instruction + _PLACE
    listed = "\n".join(
        f"- `{tool['name']}`: {tool.get('description', '')} Arguments: {tool.get('parameters')}"
        for tool in others
    )
    return (
        f"{task.instruction}{_PLACE}\n# The task's tools\nCall them by the command "
        f"`world NAME 'JSON ARGUMENTS'`, each by itself; it prints what they give back.\n{listed}\n"
    )
