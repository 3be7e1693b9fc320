"""Runs inside a session's sandbox: starts the agent and says which processes it left.

    python3 inside.py REPORT_FD FILE_BYTES CANDIDATE STDIN COMMAND [ARGUMENT ...]

No file may grow beyond FILE_BYTES. The candidate's git index is filled first. When the command has
ended, one line of JSON goes to the open descriptor: its exit status and the command lines of every
process that still runs here.

Needs nothing but the standard library, and no other file of this package.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

_SHOWN = 20


def left() -> list[str]:
    """The command lines of all processes here but the first one and this one; no dead ones."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in (1, os.getpid()):
            continue
        try:
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if state not in "ZX":
            found.append(words.decode(errors="replace").strip()[:200] or entry.name)
    return found[:_SHOWN]


def main() -> int:
    """The command's exit status, 128 + N where signal N ended it, 127 where it can't start."""
    report, most, candidate, stdin, *command = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.set_inheritable(int(report), False)
    subprocess.run(
        ["git", "-C", candidate, "reset", "--quiet"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    with Path(stdin).open("rb") as stream:
        try:
            status = subprocess.run(command, stdin=stream, cwd=candidate, check=False).returncode
        except OSError as error:
            print(f"{command[0]} can't be started: {error}", file=sys.stderr)
            status = 127
    if status < 0:
        status = 128 - status
    line = json.dumps({"status": status, "left": left()}) + "\n"
    os.write(int(report), line.encode())
    return status


if __name__ == "__main__":
    sys.exit(main())
