"""How the zygote is started: under bubblewrap, or plainly where a person asked for that.

``bwrap``: no network, no files but the interpreter's and the kernel's (read-only), its own pid,
ipc, uts and (for other users than root) user namespace, an empty environment. Each rollout then
gets namespaces, limits and a uid of its own (``rollout``).

``none``: a separate process with rlimits in a folder of its own, killed with its descendants. It
protects the engine from crashes and hangs, **not** from hostile code: evolved code then runs as
the same user, sees its files and its network, and can kill what that user can kill.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kernel import seccomp

MODES = ("bwrap", "none")
_START_S = 20.0
_BOOT = "import sys; sys.path.insert(0, {root!r}); from kernel.zygote import main; main({mode!r})"
# Hash order must be the same in every run, or a replay could differ by the order of a set.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
_PYTHON_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
_LAST = ("--remount-ro", "/")  # once everything is mounted


class SandboxUnavailable(Exception):
    """No sandbox works here; the message says why and what to do."""


class WorkerLost(Exception):
    """A rollout's process was ended from outside (the machine, an operator), not by the harness.

    Nothing is to be charged to the harness: run the task again with a fresh world.
    """


class Zygote(NamedTuple):
    """A started process and the control socket to it."""

    process: subprocess.Popen[bytes]
    control: socket.socket


def available() -> str:
    """'' when a whole sandbox starts here, else the reason and the mend."""
    try:
        zygote = launch("bwrap")
    except SandboxUnavailable as error:
        return str(error)
    end(zygote)
    return ""


def launch(mode: str) -> Zygote:
    """Start a zygote and wait until it is ready. Raises SandboxUnavailable."""
    command = _command(mode)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(_ENVIRONMENT),
            cwd="/",
            start_new_session=True,
        )
    zygote = Zygote(process, ours)
    ours.settimeout(_START_S)
    try:
        ready = bool(ours.recv(4096))
    except OSError:
        ready = False
    if not ready:
        end(zygote)
        raise SandboxUnavailable(_complaint(mode, process))
    assert process.stderr is not None
    process.stderr.close()
    ours.setblocking(False)
    return zygote


def end(zygote: Zygote) -> None:
    """Kill a zygote and with it every process it ever started; returns when they are gone."""
    zygote.control.setblocking(True)
    zygote.control.settimeout(_START_S)
    with contextlib.suppress(OSError):
        zygote.control.shutdown(socket.SHUT_WR)  # it ends its rollouts and leaves
        while zygote.control.recv(4096):
            pass
    zygote.control.close()
    zygote.process.kill()
    zygote.process.wait()


def _complaint(mode: str, process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    with process.stderr as stream:
        words = stream.read().decode("utf-8", "replace").strip().splitlines()
    reason = words[-1] if words else "it ended without a word"
    if mode == "none":
        return f"the worker process does not start: {reason}"
    return (
        f"bubblewrap does not work here: {reason}. Allow user namespaces (or run as root), "
        "or say `sandbox: none` to run evolved code without protection"
    )


def _command(mode: str) -> list[str]:
    python = [_interpreter(), *_PYTHON_FLAGS, "-c"]
    if mode == "none":
        root = str(Path(__file__).resolve().parent.parent)
        return [*python, _BOOT.format(root=root, mode="none")]
    if mode != "bwrap":
        raise SandboxUnavailable(f"unknown sandbox {mode!r}; there are: {', '.join(MODES)}")
    inside = "root" if _is_root() else "user"
    boot = _BOOT.format(root="/coevo", mode=inside)
    return [_bwrap(), *_arguments(inside, _system_paths()), *_LAST, *python, boot]


def _bwrap() -> str:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxUnavailable(
            "bubblewrap is not installed (no `bwrap` on PATH). Install it "
            "(`apt-get install bubblewrap`), or say `sandbox: none` to run evolved code "
            "without protection"
        )
    if platform.machine() not in seccomp.MACHINES:
        raise SandboxUnavailable(
            f"no system call filter for {platform.machine()}; say `sandbox: none` to run evolved "
            "code without protection"
        )
    return bwrap


def shell_options() -> tuple[str, list[str]]:
    """bubblewrap for a shell: who its first process is inside ("root" or "user"), and the start of
    the command line, still writable at its root. Raises SandboxUnavailable."""
    bwrap = _bwrap()
    mode = "root" if _is_root() else "user"
    return mode, [bwrap, *_arguments(mode, _whole_system())]


def interpreter() -> list[str]:
    """The Python that runs inside, with its flags."""
    return [_interpreter(), *_PYTHON_FLAGS]


def _interpreter() -> str:
    base = getattr(sys, "_base_executable", "") or sys.executable
    return str(Path(base).resolve())


def _is_root() -> bool:
    """Root with CAP_SYS_ADMIN; other root users (in containers) need a user namespace too."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.split("CapEff:")[1].split()[0], 16)
    return os.geteuid() == 0 and bool(effective >> 21 & 1)


def _arguments(inside: str, paths: Sequence[Path]) -> list[str]:
    """bubblewrap's options. The zygote keeps capabilities *inside* to make further namespaces."""
    arguments = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    if inside == "user":
        arguments += ["--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    arguments += ["--die-with-parent", "--new-session", "--clearenv"]
    for name, value in _ENVIRONMENT.items():
        arguments += ["--setenv", name, value]
    for path in paths:
        for parent in reversed(path.parents[:-1]):  # else closed to the rollouts' own users
            arguments += ["--perms", "0755", "--dir", str(parent)]
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        else:
            arguments += ["--ro-bind-try", str(path), str(path)]
    kernel = str(Path(__file__).resolve().parent)
    arguments += ["--perms", "0755", "--dir", "/coevo"]
    arguments += ["--ro-bind", kernel, "/coevo/kernel", "--dev", "/dev", "--proc", "/proc"]
    for folder in ("/tmp", "/harness", "/dev/shm"):
        arguments += ["--dir", folder]
    return [*arguments, "--remount-ro", "/dev", "--chdir", "/"]


def _system_paths() -> list[Path]:
    """What the interpreter needs: itself, its library, the shared libraries of the system."""
    prefix = Path(sys.base_prefix).resolve()
    if prefix == Path("/usr"):
        system = [Path("/usr")]
    else:
        system = [Path("/usr/lib"), Path("/usr/lib64"), prefix]
    links = [Path("/lib"), Path("/lib64"), Path("/etc/ld.so.cache")]
    return system + [path for path in links if path.exists()]


def _whole_system() -> list[Path]:
    """The system's programs too, and its settings that programs can't do without."""
    links = [Path(name) for name in ("/bin", "/sbin", "/lib", "/lib64")]
    settings = [Path("/etc", name) for name in ("alternatives", "ld.so.cache", "localtime")]
    found = [Path("/usr"), *(path for path in (*links, *settings) if path.exists())]
    prefix = Path(sys.base_prefix).resolve()
    return found if prefix.is_relative_to("/usr") else [*found, prefix]
