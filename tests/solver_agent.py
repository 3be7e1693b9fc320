"""An outside agent for tests: asks its model over Chat Completions, runs what it says by bash.

python3 solver_agent.py PROMPT_FILE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}


def asked(messages: list[dict[str, Any]]) -> dict[str, Any]:
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(
            {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": [TOOL]}
        ).encode(),
        {
            "content-type": "application/json",
            "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        },
    )
    with urllib.request.urlopen(request) as reply:
        message: dict[str, Any] = json.load(reply)["choices"][0]["message"]
    return message


def main() -> None:
    messages = [{"role": "user", "content": Path(sys.argv[1]).read_text()}]
    while True:
        reply = asked(messages)
        messages.append(reply)
        for call in reply.get("tool_calls") or ():
            command = json.loads(call["function"]["arguments"])["command"]
            done = subprocess.run(["bash", "-lc", command], capture_output=True, text=True)
            content = f"{done.stdout}{done.stderr}[exit {done.returncode}]"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        if not reply.get("tool_calls"):
            return


if __name__ == "__main__":
    main()
