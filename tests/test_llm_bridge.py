"""The bridge in a sandbox with a network of its own: bytes, exit codes, signals."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from llm_cases import CANARY, MODEL, endpoint, events, meter

from engine.llm import bridge
from engine.llm.gateway import Gateway
from engine.llm.scripted import Answer, ScriptedEndpoint
from engine.serving.process import free_port

ASK = """
import json, os, socket, urllib.request
for family, host in ((socket.AF_INET, "1.1.1.1"), (socket.AF_INET, "127.0.0.1")):
    try:
        socket.create_connection((host, {outside}), 2).close()
        print("REACHED", host)
    except OSError as error:
        print("closed", host)
body = json.dumps({{"model": {model!r}, "stream": True, "messages": {messages}}}).encode()
key = {{"authorization": "Bearer " + os.environ["TOKEN"], "content-type": "application/json"}}
for n in range(3):
    request = urllib.request.Request("http://127.0.0.1:8200/v1/chat/completions", body, key)
    print(urllib.request.urlopen(request).read().decode())
"""


def command(path: str, port: int, *words: str) -> list[str]:
    return [sys.executable, "-I", bridge.__file__, path, str(port), *words]


def test_a_sandbox_reaches_the_gateway_and_nothing_else(tmp_path: Path) -> None:
    """A whole conversation from within a network namespace that has only loopback."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on PATH")
    messages = [{"role": "user", "content": "a long prompt " * 20000}]

    async def ask() -> tuple[str, int]:
        with ScriptedEndpoint(lambda request: Answer("y" * 4800), key=CANARY) as server:
            outside = server.server_address[1]
            code = ASK.format(outside=outside, model=MODEL, messages=messages)
            (tmp_path / "ask.py").write_text(code)
            async with (
                Gateway(endpoint(server.url), meter(tmp_path), tmp_path / "s") as gateway,
                gateway.open("k1", "editors", None, tmp_path / "k1") as door,
            ):
                way = str(door.socket)
                process = await asyncio.create_subprocess_exec(
                    *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-all"),
                    *("--bind", way, way, "--setenv", "TOKEN", door.token),
                    *command(way, 8200, sys.executable, str(tmp_path / "ask.py")),
                    stdout=asyncio.subprocess.PIPE,
                )
                out, _ = await process.communicate()
                return out.decode(), door.usage.calls

    out, calls = asyncio.run(ask())
    assert out.startswith("closed 1.1.1.1\nclosed 127.0.0.1\n")
    said = [c["choices"][0]["delta"].get("content", "") for c in events(out.encode())]
    assert "".join(said) == "y" * 4800 * 3
    assert calls == 3


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 137),
        (("no-such-agent",), 127),
    ],
)
def test_the_status_is_the_commands(words: tuple[str, ...], status: int) -> None:
    done = subprocess.run(command("/none", free_port(), *words), capture_output=True, text=True)
    assert done.returncode == status
    assert ("can't be started" in done.stderr) == (status == 127)


def test_a_signal_goes_on_to_the_command() -> None:
    wait = "for i in $(seq 600); do sleep 0.05; done"
    inner = f"trap 'echo ended; exit 3' TERM; echo ready; {wait}"
    with subprocess.Popen(
        command("/none", free_port(), "sh", "-c", inner), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "ended\n"
    assert process.returncode == 3


def test_a_gateway_that_is_gone_closes_the_connection() -> None:
    port = free_port()
    inner = f"import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(1))"
    done = subprocess.run(
        command("/none", port, sys.executable, "-c", inner), capture_output=True, text=True
    )
    assert done.stdout == "b''\n"
    assert "the gateway doesn't answer" in done.stderr


def test_a_cut_on_the_gateways_side_is_a_cut_for_the_client(tmp_path: Path) -> None:
    """A connection that ends half-way isn't held open by the bridge."""
    port = free_port()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        inner = (
            f"import socket; s = socket.create_connection(('127.0.0.1', {port}));"
            "s.sendall(b'ask'); print(s.recv(9), s.recv(9))"
        )
        with subprocess.Popen(
            command(str(tmp_path / "s"), port, sys.executable, "-c", inner),
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            accepted, _ = listening.accept()
            assert accepted.recv(3) == b"ask"
            accepted.sendall(b"half")
            accepted.close()
            assert process.stdout is not None
            assert process.stdout.read() == "b'half' b''\n"


def test_wrong_words_are_said() -> None:
    done = subprocess.run(
        [sys.executable, bridge.__file__, "/none", "port", "true"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("usage: bridge.py SOCKET PORT COMMAND")


def test_it_needs_nothing_but_the_standard_library() -> None:
    """It is mounted into sandboxes alone, without this package."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", bridge.__file__, "/none", str(free_port()), "true"],
        cwd="/",
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
