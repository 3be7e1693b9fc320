"""Where things lie inside a session's sandbox. The same for every session, so that prompts are."""

from __future__ import annotations

BESIDE = "/coevo/desk"
CANDIDATE = f"{BESIDE}/candidate"
ARCHIVE = "/coevo/archive"
SESSION = "/coevo/session"
LIBRARY = "/coevo/lib"
HOME = "/home/editor"

PROMPT = f"{SESSION}/prompt.md"
SOCKET = f"{SESSION}/llm.sock"
CHECK = f"sh {SESSION}/check"

PORT = 8377
"""Of the model's endpoint; each session has a loopback of its own."""

BASE_URL = f"http://127.0.0.1:{PORT}/v1"
