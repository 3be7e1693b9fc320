"""Finished sessions, kept as they end, so that a round that broke off doesn't run them again."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

from engine.editors import Edit
from engine.records import adapter, write_bytes

SCHEMA = 1
FILE = "result.json"


def keep(folder: Path, key: str, edit: Edit) -> None:
    """Write a session's result in one step. ``key`` names all that it depends on."""
    files = {name: base64.b64encode(data).decode() for name, data in edit.files.items()}
    body = adapter(Edit).dump_python(replace(edit, files={}), mode="json")
    whole = {"schema": SCHEMA, "key": key, "edit": body, "files": files}
    write_bytes(folder / FILE, (json.dumps(whole) + "\n").encode())


def kept(folder: Path, key: str) -> Edit | None:
    """The result that was kept under this key; None where there is none, or one of another key."""
    try:
        whole = json.loads((folder / FILE).read_bytes())
    except (OSError, ValueError):
        return None
    if whole.get("schema") != SCHEMA or whole.get("key") != key:
        return None
    edit: Edit = adapter(Edit).validate_python(whole["edit"])
    files = {name: base64.b64decode(data) for name, data in whole["files"].items()}
    return replace(edit, files=files)
