"""``vllm serve``, as a program of its own that speaks its protocol and answers at once.

    fake_vllm.py serve CHECKPOINT --served-model-name NAME --port N …

It knows the arguments that the engine gives, says what the folder's ``says.txt`` says, or answers
by ``skill.json`` as the scripted server does. ``FAKE_VLLM`` is a folder: ``pid`` names the process,
``loads`` gets a line for each start, ``asked`` one for each request, and each file ``die-*`` there
ends one process as it starts (exit code 3).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import scripted

from kernel.contract import Completion, Sampling


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    made.add_argument("serve", choices=["serve"])
    made.add_argument("model", type=Path)
    for name in ("served-model-name", "host", "generation-config"):
        made.add_argument(f"--{name}", required=True)
    for name in ("port", "max-model-len", "max-num-seqs"):
        made.add_argument(f"--{name}", type=int, required=True)
    for name in ("tool-call-parser", "reasoning-parser"):
        made.add_argument(f"--{name}")
    for name in ("enable-prefix-caching", "enable-auto-tool-choice", "enforce-eager"):
        made.add_argument(f"--{name}", action="store_true")
    return made


class Handler(BaseHTTPRequestHandler):
    options: argparse.Namespace
    diary: Path
    latency_s: float

    def do_GET(self) -> None:
        if self.path == "/health":
            self.reply(200, {})
            return
        root = str(self.options.model)
        self.reply(200, {"data": [{"id": self.options.served_model_name, "root": root}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note(self.diary / "asked", self.options.served_model_name)
        time.sleep(self.latency_s)
        words = sum(len(str(m.get("content")).split()) for m in body["messages"])
        if words + body["max_tokens"] > self.options.max_model_len:
            said = f"This model's maximum context length is {self.options.max_model_len} tokens"
            self.reply(400, {"error": {"message": said, "code": 400}})
        elif body["model"] != self.options.served_model_name:
            self.reply(404, {"error": {"message": f"no model {body['model']}", "code": 404}})
        else:
            self.reply(200, chat(self.options, body, words))

    def reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        print(format % args, file=sys.stderr)


def chat(options: argparse.Namespace, body: dict[str, Any], words: int) -> dict[str, Any]:
    done = answer(options.model, body)
    message: dict[str, Any] = {"role": "assistant", "content": done.content}
    if done.tool_calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in done.tool_calls
        ]
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": options.served_model_name,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": words, "completion_tokens": 3, "total_tokens": words + 3},
    }


def answer(model: Path, body: dict[str, Any]) -> Completion:
    says = model / "says.txt"
    if says.exists():
        return Completion(content=says.read_text())
    skill = json.loads((model / "skill.json").read_text())["skill"]
    speaker = scripted.ScriptedChat(skill, "", 0.0, None, iter(lambda: 1, None))
    messages, tools = body["messages"], body.get("tools", [])
    return asyncio.run(speaker.complete(messages, tools, Sampling(), body["seed"]))


def note(path: Path, line: str) -> None:
    with path.open("a") as stream:
        stream.write(f"{line}\n")


def main() -> None:
    options = Handler.options = parser().parse_args()
    diary = Handler.diary = Path(os.environ["FAKE_VLLM"])
    Handler.latency_s = float(os.environ.get("FAKE_LATENCY", "0"))
    for order in sorted(diary.glob("die-*")):
        order.unlink()
        print("ValueError: this one won't start", file=sys.stderr)
        print("EngineDeadError: EngineCore encountered an issue. See above.", file=sys.stderr)
        print("nanobind: leaked 4 instances!", file=sys.stderr)
        sys.exit(3)
    note(diary / "loads", options.served_model_name)
    with ThreadingHTTPServer((options.host, options.port), Handler) as server:
        server.daemon_threads = True
        (diary / "pid").write_text(str(os.getpid()))
        server.serve_forever()


if __name__ == "__main__":
    main()
