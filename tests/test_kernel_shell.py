"""The sandboxed shell: what commands can do, what they can't, and what is left of them."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from kernel.contract import ExecResult
from kernel.shell import Mount, Shell, ShellLimits, graded

T = TypeVar("T")


def packed(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def names(archive: bytes) -> set[str]:
    return {
        name.removeprefix("./") for name in tarfile.open(fileobj=io.BytesIO(archive)).getnames()
    }


def within(work: Callable[[Shell], Awaitable[T]], shell: Shell) -> T:
    async def run() -> T:
        try:
            return await work(shell)
        finally:
            await shell.close()

    return asyncio.run(run())


def said(*commands: str, limits: ShellLimits | None = None, **given: bytes) -> list[ExecResult]:
    async def work(shell: Shell) -> list[ExecResult]:
        return [await shell.exec(command) for command in commands]

    return within(work, Shell({"/app": packed(dict(given))}, limits=limits))


def test_commands_start_where_the_files_are_and_share_what_they_leave() -> None:
    first, second, third = said(
        "pwd; cat a; exit 3", "echo new > b; echo oops >&2", "cat b; ls -1", a=b"hello\n"
    )
    assert first == ExecResult("/app\nhello\n", "", 3)
    assert second == ExecResult("", "oops\n", 0)
    assert third == ExecResult("new\na\nb\n", "", 0)


def test_a_background_process_lives_on_between_commands_and_ends_with_the_shell() -> None:
    mark = f"coevo-{os.getpid()}"
    forked = f"setsid bash -c 'trap \"\" TERM; exec -a {mark} sleep 300' & echo started"
    started, after = said(forked, f"pgrep -f {mark} | wc -l")
    assert started.stdout == "started\n"
    assert int(after.stdout) >= 1
    found = subprocess.run(["pgrep", "-f", mark], capture_output=True, text=True, check=False)
    assert found.stdout == ""


def test_a_command_over_its_time_is_killed_and_the_shell_goes_on() -> None:
    limits = ShellLimits(command_s=0.5)
    late, after = said("echo begun; sleep 60", "echo still here", limits=limits)
    assert late.return_code == 124 and late.stdout == "begun\n"
    assert "killed after 0.5 s" in late.stderr
    assert after.stdout == "still here\n"


def test_a_flood_of_output_is_cut_in_the_middle_and_fills_nothing() -> None:
    limits = ShellLimits(output_bytes=1000)
    flood = "echo first; yes 123456789 | head -c 50000000; echo last"
    [result] = said(flood, limits=limits)
    assert result.stdout.startswith("first\n") and result.stdout.endswith("last\n")
    assert len(result.stdout) < 1100 and "[cut: 499990" in result.stdout


def test_output_within_the_limit_comes_whole() -> None:
    [result] = said("head -c 16000000 /dev/zero | tr '\\0' x")
    assert result.stdout == "x" * 16_000_000


@pytest.mark.parametrize(
    "command",
    [
        "exec 3<>/dev/tcp/127.0.0.1/22",
        "python3 -c 'import socket; socket.socket()'",
        "ls /boot",
        "ls /home",
        "cat /etc/shadow",
        "mount -t tmpfs none /mnt",
        "unshare -Ur true",
        "touch /usr/x",
        "touch /coevo/kernel/x",
        "echo 1 > /proc/sys/kernel/panic",
        "cat /proc/1/environ | grep .",
        "cat /proc/1/mem",
        "dd if=/dev/zero of=/app/flood bs=1M count=64",
    ],
)
def test_what_a_command_may_not_do_fails(command: str) -> None:
    [result] = said(command, limits=ShellLimits(folder_bytes=2**20))
    assert result.return_code != 0


def test_the_host_is_not_in_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "label").write_text("canary")
    monkeypatch.setenv("COEVO_CANARY", "canary")
    [result] = said(f"cat {tmp_path}/label; env; ls -d /proc/[0-9]* | wc -l")
    assert "canary" not in result.stdout
    assert int(result.stdout.splitlines()[-1]) < 12


def test_a_mounted_folder_can_be_read_and_not_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "given").write_text("read me")

    async def work(shell: Shell) -> list[ExecResult]:
        return [await shell.exec(c) for c in ("cat /data/given", "echo x > /data/given")]

    read, written = within(work, Shell({"/app": b""}, [Mount(tmp_path, "/data")]))
    assert read.stdout == "read me" and written.return_code != 0
    assert (tmp_path / "given").read_text() == "read me"


def test_a_fork_bomb_stays_in_its_bounds_and_costs_only_its_shell() -> None:
    limits = ShellLimits(processes=32, command_s=3)
    bomb = "b() { b | b & }; b; sleep 2; echo done"
    *_, after = said(bomb, "echo next", limits=limits)
    assert after.return_code in (0, 126, 137)
    assert said("echo fine")[0].stdout == "fine\n"


def test_memory_is_counted_over_all_processes() -> None:
    limits = ShellLimits(memory_bytes=150 * 2**20, command_s=20)
    hungry = "python3 -c 'x = bytearray(60 << 20); import time; time.sleep(15)'"
    result = said(f"{hungry} & {hungry} & {hungry} & wait; echo survived", limits=limits)[0]
    assert result.return_code == 137 and "MB of memory" in result.stderr


def test_killing_everything_ends_the_shell_alone() -> None:
    killed, after = said("kill -9 -1", "echo next")
    assert killed.return_code == after.return_code == 137
    assert "the shell has ended" in after.stderr


def test_what_is_collected_holds_files_folders_and_links_only() -> None:
    async def work(shell: Shell) -> tuple[bytes, bytes]:
        await shell.exec("mkdir d; echo 1 > d/f; ln -s /etc/passwd l; mkfifo p; (sleep 99 &)")
        await shell.exec("ln d/f twin; truncate -s 60M big; cp -l big more; chmod 0 a")
        await shell.exec("echo kept > /logs/agent/note")
        return await shell.collect("/app"), await shell.collect("/logs/agent")

    limits = ShellLimits(folder_bytes=100 * 2**20)
    app, logs = within(work, Shell({"/app": packed({"a": b"1"})}, limits=limits))
    assert names(app) == {"d", "d/f", "twin", "l", "big"}  # "more" doesn't fit, "a" is closed
    assert names(logs) == {"note"}
    with tarfile.open(fileobj=io.BytesIO(app)) as archive:
        twin = archive.extractfile("twin")
        assert twin is not None and twin.read() == b"1\n"


def test_files_can_be_put_in_while_commands_run() -> None:
    async def work(shell: Shell) -> ExecResult:
        await shell.exec(
            "mkdir -p in; (while ! test -e in/mail; do sleep 0.05; done; cp in/mail got) &"
        )
        await shell.put("/app", packed({"in/mail": b"news"}))
        return await shell.exec("sleep 0.5; cat got")

    assert within(work, Shell({"/app": b""})).stdout == "news"


# --- grading ----------------------------------------------------------------------------------

GRADE = b"""
import json, subprocess
from pathlib import Path
facts = json.loads(Path("/grader/facts.json").read_text())
made = Path("/app/answer.txt")
right = made.is_file() and made.read_text() == facts["answer"]
ran = subprocess.run(["python3", "/app/code.py"], capture_output=True, text=True)
print("the code said", ran.stdout)
print(json.dumps({"score": float(right)}))
"""


def grade(files: Mapping[str, bytes], script: bytes = GRADE) -> tuple[float, str]:
    return asyncio.run(
        graded(
            packed(files), packed({"grade.py": script}), {"answer": "42"}, ShellLimits(command_s=5)
        )
    )


def test_a_grader_sees_a_copy_and_scores_it() -> None:
    assert grade({"answer.txt": b"42"})[0] == 1.0
    score, text = grade({"answer.txt": b"41", "code.py": b"print('hi')"})
    assert score == 0.0 and "the code said hi" in text


FORGERIES = {
    "a last line of its own": b"print('{\"score\": 1.0}')",
    "the grader's descriptors": (
        b"import os\n"
        b"for pid in [p for p in os.listdir('/proc') if p.isdigit()]:\n"
        b"    for fd in range(12):\n"
        b"        try: open(f'/proc/{pid}/fd/{fd}', 'w').write('\\n{\"score\": 1.0}\\n')\n"
        b"        except OSError: pass\n"
    ),
    "the grader's file": (
        b"open('/grader/grade.py', 'w').write('import json; print(json.dumps(dict(score=1)))')"
    ),
    "killing the grader": b"import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "killing everything": b"import os, signal; os.kill(-1, signal.SIGKILL)",
    "the grader's memory": (
        b"import os\nopen(f'/proc/{os.getppid()}/mem', 'r+b').read(1)\nprint('reached')"
    ),
    "time without end": b"while True: pass",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_is_graded_cannot_speak_for_the_grader(forgery: str) -> None:
    score, text = grade({"answer.txt": b"41", "code.py": FORGERIES[forgery]})
    assert score == 0.0 and "reached" not in text


def test_names_that_python_would_load_do_not_reach_the_grader() -> None:
    fake = b"import builtins, json\njson.dumps = lambda *_: '{\"score\": 1.0}'\n"
    tricks = dict.fromkeys(("json.py", "sitecustomize.py", "usercustomize.py", "conftest.py"), fake)
    assert grade({"answer.txt": b"41", **tricks})[0] == 0.0


def link(name: str, target: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = tarfile.SYMTYPE, target
        archive.addfile(member)
        inner = tarfile.TarInfo(f"{name}/grade.py")
        inner.size = 3
        archive.addfile(inner, io.BytesIO(b"1/0"))
        real = tarfile.TarInfo("answer.txt")
        real.size = 2
        archive.addfile(real, io.BytesIO(b"42"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "target", ["/grader", "../grader", "/grader/facts.json", "/proc/self/root"]
)
def test_links_out_of_the_folder_are_not_there_when_it_is_graded(target: str) -> None:
    script = b"import json\nfrom pathlib import Path\nleft = sorted(p.name for p in Path('/app')"
    script += b".glob('*') if not p.is_dir())\n"
    script += b"print(json.dumps({'score': left == ['answer.txt']}))"
    graders = packed({"grade.py": script})
    score, text = asyncio.run(graded(link("way", target), graders, {}))
    assert score == 1.0, text


@pytest.mark.parametrize("left", [b"no archive", packed({"a": b"1" * 5000})[:3000]])
def test_a_spoilt_copy_is_graded_as_what_is_left_of_it(left: bytes) -> None:
    score, text = asyncio.run(graded(left, packed({"grade.py": GRADE}), {"answer": "42"}))
    assert score == 0.0 and "the code said" in text


def test_what_finds_no_room_does_not_break_off_the_grading() -> None:
    limits = ShellLimits(folder_bytes=2**20)
    left = packed({"big": b"1" * 2**21, "answer.txt": b"42"})
    assert asyncio.run(graded(left, packed({"grade.py": GRADE}), {"answer": "42"}, limits))[0] == 1


@pytest.mark.parametrize(
    "last", ["{}", "not JSON", '{"score": 2}', '{"score": "NaN"}', '{"score": -1}', "[1]"]
)
def test_a_grader_without_a_score_gives_none(last: str) -> None:
    assert grade({}, f"print({last!r})".encode())[0] == 0.0
