"""The real Codex CLI in a sandbox without a network: through the bridge and the gateway it works
against a scripted endpoint, and the key is nowhere in its reach."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from llm_cases import CANARY, MODEL, endpoint, lines, meter

from engine.llm import bridge
from engine.llm.gateway import Door, Gateway
from engine.llm.scripted import Answer, Request, ScriptedEndpoint
from engine.llm.usage import Caps

PORT = 8123
PYTHON = Path(sys.executable).resolve()
PROVIDER = (
    'model_providers.coevo={name="CoEvo", base_url="http://127.0.0.1:8123/v1", '
    'env_key="DOOR_TOKEN", wire_api="responses", request_max_retries=1, stream_max_retries=1}'
)


def codex() -> Path:
    """The package's folder in node_modules, which holds the binary too."""
    found = shutil.which("codex")
    if found is None:
        pytest.skip("no codex on PATH (npm install -g @openai/codex)")
    real = Path(found).resolve()
    return next((p for p in real.parents if p.name == "node_modules"), real.parent)


def sandboxed(door: Door, worktree: Path, command: Sequence[str], extra: Path) -> list[str]:
    """``command`` behind the bridge, in a sandbox with nothing of this machine but programs."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on PATH")
    programs = [Path("/usr"), Path("/bin"), Path("/lib"), Path("/lib64"), Path("/etc/alternatives")]
    programs += [Path(sys.base_prefix).resolve(), PYTHON.parent, extra]
    arguments = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home"]
    for path in programs:
        arguments += ["--ro-bind-try", str(path), str(path)]
    arguments += ["--ro-bind", bridge.__file__, "/bridge.py"]
    arguments += ["--bind", str(worktree), "/worktree", "--chdir", "/worktree"]
    arguments += ["--bind", str(door.socket), "/gateway.sock"]
    return [*arguments, str(PYTHON), "-I", "/bridge.py", "/gateway.sock", str(PORT), *command]


async def run(command: Sequence[str], token: str, limit_s: float = 120.0) -> tuple[int, str, str]:
    """Exit status, stdout, stderr. bubblewrap gets the agent's environment too: its own can be
    read from inside, under /proc/1."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"DOOR_TOKEN": token, "HOME": "/home", "PATH": "/usr/bin:/bin"},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), limit_s)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def edits(request: Request) -> Answer:
    """Edit a file by the shell, look around, then say so."""
    if not request.results:
        look = (
            "echo 'LIMIT = 7' >> harness.py; env; cat /proc/*/environ /proc/*/cmdline; ls / /home"
        )
        return Answer("I add a limit.", [("exec_command", {"cmd": look})])
    return Answer("Done: harness.py has a limit.")


def session(folder: Path, caps: Caps | None = None) -> tuple[int, str, str, Door]:
    """One Codex session on a worktree with a harness."""
    packages = codex()
    script = packages / "@openai" / "codex" / "bin" / "codex.js"
    worktree = folder / "worktree"
    worktree.mkdir()
    (worktree / "harness.py").write_text("TURNS = 3\n")
    command = ["node", str(script), "exec", "--json", "--ephemeral", "--skip-git-repo-check"]
    command += ["-s", "danger-full-access", "-m", MODEL, "-c", PROVIDER]
    command += ["-c", 'model_provider="coevo"', "Put a limit into harness.py."]

    async def ask() -> tuple[int, str, str, Door]:
        with ScriptedEndpoint(edits, key=CANARY, models=[MODEL]) as server:
            counted = meter(folder)
            async with (
                Gateway(endpoint(server.url), counted, folder / "sockets") as gateway,
                gateway.open("k1", "editors", caps, folder / "k1.jsonl") as door,
            ):
                ended = await run(sandboxed(door, worktree, command, packages), door.token)
            counted.close()
            return *ended, door

    return asyncio.run(ask())


def test_codex_edits_its_worktree_and_sees_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    status, out, err, door = session(tmp_path)
    assert status == 0, err
    assert (tmp_path / "worktree" / "harness.py").read_text() == "TURNS = 3\nLIMIT = 7\n"
    assert door.usage.calls == 2
    assert door.usage.unanswered == door.usage.estimated == 0
    said = lines(tmp_path / "k1.jsonl")
    assert [line["event"] for line in said] == ["request", "reply", "request", "reply"]
    looked = str(said[2]["new"])
    assert "DOOR_TOKEN=[token]" in looked and "bwrap" in looked
    assert CANARY not in out + err + (tmp_path / "k1.jsonl").read_text()
    assert door.token not in (tmp_path / "k1.jsonl").read_text()


def test_codex_stops_where_its_budget_is_spent(tmp_path: Path) -> None:
    status, out, _, door = session(tmp_path, Caps(calls=1))
    assert (tmp_path / "worktree" / "harness.py").read_text() == "TURNS = 3\nLIMIT = 7\n"
    assert status == 1
    assert "The budget of this session is spent" in out
    assert door.usage.calls == 1
    assert "budget is spent" in door.trouble
