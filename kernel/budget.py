"""The line budget of an edit: added lines between two workspaces, as git counts them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernel import workspace

MAX_LINE_CHARS = 2000


def added_lines(base: Mapping[str, bytes], new: Mapping[str, bytes]) -> int:
    """What ``git diff --numstat`` (with its rename detection) counts as added from base to new.

    Notes, report and deleted lines are free. Raises ValueError for what ``refusals`` names, or
    when the git command is missing.
    """
    if problems := refusals(base, new):
        raise ValueError(problems[0])
    git = shutil.which("git")
    if git is None:
        raise ValueError("the line budget is counted by git, which is not installed")
    with tempfile.TemporaryDirectory(prefix="coevo-budget-") as scratch:
        for side, files in (("base", base), ("new", new)):
            Path(scratch, side).mkdir()
            _write(Path(scratch, side), workspace.code(files))
        command = [git, "diff", "--no-index", "--numstat", "--find-renames", "base", "new"]
        done = subprocess.run(
            command, cwd=scratch, env=_environment(git, scratch), capture_output=True, check=False
        )
    if done.returncode not in (0, 1):
        raise ValueError(f"git diff failed: {done.stderr.decode(errors='replace').strip()}")
    counts = [line.split(b"\t")[0] for line in done.stdout.splitlines()]
    return sum(int(count) for count in counts)


def refusals(base: Mapping[str, bytes], new: Mapping[str, bytes]) -> list[str]:
    """New or changed files that no budget can count: binaries, over-long lines, git's own files."""
    found = []
    for name, content in workspace.code(new).items():
        if base.get(name) == content:
            continue
        if any(part.startswith(".git") for part in Path(name).parts):
            found.append(f"{name}: a workspace holds no git files")
            continue
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            found.append(f"{name} is binary")
        elif (longest := max(map(len, text.splitlines()), default=0)) > MAX_LINE_CHARS:
            found.append(f"{name} has a line of {longest} characters (limit {MAX_LINE_CHARS})")
    return found


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _environment(git: str, scratch: str) -> dict[str, str]:
    """Nobody's git configuration may change the count."""
    return {
        "PATH": str(Path(git).parent),
        "HOME": scratch,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(Path(scratch).parent),
    }
