"""The task's shell and tools, as an agent in a session's sandbox reaches them.

    bash -lc COMMAND        runs COMMAND in the task's shell (this file under the name of a shell)
    world NAME [JSON]       calls a tool of the task; without NAME it lists them; also as COMMAND

Nothing but the standard library, and no other file of this package.
"""

from __future__ import annotations

import json
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

SOCKET = "/coevo/session/world.sock"


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """The host's answer: one line of JSON each way."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(SOCKET)
        stream = line.makefile("rwb")
        stream.write(json.dumps(request).encode() + b"\n")
        stream.flush()
        found: dict[str, Any] = json.loads(stream.readline())
    return found


def command_of(arguments: list[str]) -> str:
    """The command of a shell's arguments: after ``-c`` (or ``-lc``, ``-ic``), else a script's text,
    else what comes on stdin."""
    for place, word in enumerate(arguments):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return arguments[place + 1] if place + 1 < len(arguments) else ""
    scripts = [word for word in arguments if not word.startswith("-")]
    return Path(scripts[0]).read_text() if scripts else sys.stdin.read()


def shell(arguments: list[str]) -> int:
    """Run one command there; its output and status are this process's. ``world ...`` alone is a
    call of a tool, which the task's own shell doesn't have."""
    command = command_of(arguments)
    words = split(command)
    if words[:1] == ["world"]:
        return world(words[1:])
    done = ask({"op": "exec", "command": command})
    sys.stdout.write(done["stdout"])
    sys.stderr.write(done["stderr"])
    return int(done["return_code"])


def split(command: str) -> list[str]:
    """Its words; none where the quotes don't match."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def world(arguments: list[str]) -> int:
    """Call one tool; what it gives goes to stdout."""
    if not arguments:
        print(json.dumps(ask({"op": "tools"})["tools"], indent=1))
        return 0
    try:
        given = json.loads(arguments[1]) if len(arguments) > 1 else {}
    except ValueError as error:
        print(f"world: the arguments are no JSON: {error}", file=sys.stderr)
        return 2
    print(ask({"op": "call", "name": arguments[0], "arguments": given})["observation"])
    return 0


if __name__ == "__main__":
    own = Path(sys.argv[1]).name
    sys.exit(world(sys.argv[2:]) if own == "world" else shell(sys.argv[2:]))
