"""Runs inside a session's sandbox: a small coding agent over Chat Completions.

    python3 chat_agent.py BASE_URL MODEL CONTEXT_TOKENS < PROMPT

Five tools: list, read, write, replace, run. The key is in OPENAI_API_KEY. It ends when the model
answers without a call, and by a status that isn't 0 when the endpoint can't be asked any more.

Needs nothing but the standard library, and no other file of this package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_SYSTEM = (
    "You are a coding agent in a sandbox. Work with the tools until the task is done, then answer "
    "with one short sentence and no tool call."
)
_SHOWN = 16_000
_RUN_S = 300
_TRIES = 5
_BYTES_A_TOKEN = 3


def tool(name: str, about: str, **parameters: str) -> dict[str, Any]:
    """A tool's schema; every parameter is a required string."""
    fields = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {
        "type": "function",
        "function": {"name": name, "description": about, "parameters": schema},
    }


TOOLS = [
    tool("list", "The files below a folder.", path="the folder"),
    tool("read", "A text file, or a part of it.", path="the file", lines="such as 1-200, or all"),
    tool("write", "Write a whole text file.", path="the file", text="its new content"),
    tool(
        "replace",
        "Replace a text that stands exactly once in a file.",
        path="the file",
        old="the text as it stands there",
        new="what it becomes",
    ),
    tool("run", f"Run a shell command, at most {_RUN_S} seconds.", command="the command"),
]


def list_(path: str) -> str:
    found = (p for p in sorted(Path(path).rglob("*")) if ".git" not in p.parts and p.is_file())
    return "\n".join(str(p) for p in found) or "no files"


def read(path: str, lines: str) -> str:
    text = Path(path).read_text("utf-8", "replace")
    first, dash, last = lines.partition("-")
    if not dash:
        return text
    chosen = text.splitlines()[max(int(first) - 1, 0) : int(last)]
    return "\n".join(chosen)


def write(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, "utf-8")
    return "written"


def replace(path: str, old: str, new: str) -> str:
    text = Path(path).read_text("utf-8")
    if text.count(old) != 1:
        return f"error: it stands there {text.count(old)} times, not once"
    Path(path).write_text(text.replace(old, new), "utf-8")
    return "replaced"


def run(command: str) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_RUN_S,
        check=False,
    )
    return f"exit {done.returncode}\n" + done.stdout.decode("utf-8", "replace")


DO: Mapping[str, Callable[..., str]] = {
    "list": list_,
    "read": read,
    "write": write,
    "replace": replace,
    "run": run,
}


def carried_out(call: Mapping[str, Any]) -> str:
    """What a tool gives back, or what was wrong with the call; shortened in the middle."""
    name = call["function"]["name"]
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
        said = DO[name](**arguments)
    except KeyError:
        said = f"error: there is no tool {name!r}; there are {', '.join(DO)}"
    except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
        said = f"error: {error}"
    if len(said) > _SHOWN:
        cut = f"\n... {len(said) - _SHOWN} characters left out ...\n"
        said = said[: _SHOWN // 2] + cut + said[-_SHOWN // 2 :]
    return said


def key() -> str:
    """The session's token."""
    for pair in Path("/proc/self/environ").read_bytes().split(b"\0"):
        name, _, value = pair.partition(b"=")
        if name == b"OPENAI_API_KEY":
            return value.decode()
    return "none"


def ask(url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """One reply; asked again after a while where the endpoint is busy."""
    request = urllib.request.Request(
        url + "/chat/completions",
        json.dumps(body).encode(),
        {
            "content-type": "application/json",
            "authorization": f"Bearer {key()}",
        },
    )
    for attempt in range(_TRIES):
        try:
            with urllib.request.urlopen(request) as reply:
                return dict(json.load(reply))
        except urllib.error.HTTPError as error:
            said = error.read().decode("utf-8", "replace")[:1000]
            busy = error.code in (408, 409, 429) or error.code >= 500
            if not busy or attempt == _TRIES - 1:
                sys.exit(f"the endpoint answered {error.code}: {said}")
        except (OSError, ValueError) as error:
            if attempt == _TRIES - 1:
                sys.exit(f"the endpoint doesn't answer: {error}")
        time.sleep(min(0.5 * 2**attempt, 8.0))
    raise AssertionError("unreachable: the last try returns or ends")


def fit(messages: list[dict[str, Any]], context: int) -> None:
    """Drop the oldest tools' output until three quarters of the context hold the history."""
    for message in messages:
        if len(json.dumps(messages)) <= context * _BYTES_A_TOKEN * 3 // 4:
            return
        if message["role"] == "tool":
            message["content"] = "[dropped: call the tool again if it is needed]"


def main() -> None:
    url, model, context = sys.argv[1], sys.argv[2], int(sys.argv[3])
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": sys.stdin.read()},
    ]
    while True:
        fit(messages, context)
        body = {"model": model, "messages": messages, "tools": TOOLS}
        message = ask(url, body)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        messages.append({key: value for key, value in message.items() if value is not None})
        print(json.dumps({"said": message.get("content"), "calls": calls}), flush=True)
        if not calls:
            return
        for call in calls:
            said = carried_out(call)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})


if __name__ == "__main__":
    main()
