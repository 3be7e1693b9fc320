"""From a fork of the zygote to a confined process that may run evolved code.

Mounts that only this rollout sees, its files read-only, then limits, uid and capabilities. Only
after all of that is reported does the worker import the harness.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from kernel import isolation, seccomp, usage, wire, worker

CONFINED = "confined"
SETUP_STATUS = 70 << 8  # as waitpid gives it
_START_BYTES = 256 * 2**20
_HARNESS, _TMP = "/harness", "/tmp"


class _ToldToEnd(Exception):
    """The zygote wants this rollout gone."""


def silence(descriptor: int) -> None:
    """Point a descriptor at /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


class Plan(NamedTuple):
    """What is worked out once, before any fork."""

    mode: str
    system_calls: seccomp.Filter | None
    uids: range


def plan(mode: str) -> Plan:
    if mode == "none":
        return Plan(mode, None, range(0))
    return Plan(mode, seccomp.prepare(), isolation.spare_uids())


def main(descriptor: int, report: int, plan: Plan, uid: int) -> NoReturn:
    """Become the rollout whose start frame arrives on ``descriptor``; never returns."""
    try:
        kept = [fcntl.fcntl(number, fcntl.F_DUPFD, 5) for number in (descriptor, report)]
        os.dup2(kept[0], 3)
        os.dup2(kept[1], 4)
        os.closerange(5, 65536)  # the zygote's: other rollouts' pidfds, its control socket
        sock = socket.socket(fileno=3)
        if plan.system_calls is None:
            _keep(sock, 4)
        start = wire.receive(sock, _START_BYTES)
        _private_folders(start, plan.mode)
        _write_files(_HARNESS, start["files"])
        isolation.make_readonly(_HARNESS)
        _confine(start["limits"], plan, uid)
    except (OSError, wire.FrameError) as error:
        os.write(4, str(error).encode()[:500])
        os._exit(SETUP_STATUS >> 8)
    os.write(4, CONFINED.encode())
    os.close(4)
    worker.main(sock, start, (_HARNESS, _TMP))


def _private_folders(start: dict[str, Any], mode: str) -> None:
    isolation.unshare(isolation.NEW_MOUNT | isolation.NEW_IPC | isolation.NEW_NET)
    isolation.mount_proc()
    if mode == "user":
        isolation.protect_settings()
    size = sum(len(text) for text in start["files"].values())
    isolation.mount_tmpfs(_HARNESS, 2 * size + 2**20 + 8192 * len(start["files"]), "755")
    isolation.mount_tmpfs(_TMP, start["limits"]["tmp_bytes"], "1777")
    shared = Path(_TMP, ".shm")
    shared.mkdir()
    shared.chmod(0o1777)
    isolation.bind(str(shared), "/dev/shm")


def _write_files(folder: str, files: dict[str, str]) -> None:
    """``files`` maps a path to its text in Latin-1, which carries any bytes through JSON."""
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))


def _confine(limits: dict[str, Any], plan: Plan, uid: int) -> None:
    assert plan.system_calls is not None
    isolation.be_killed_first()
    if plan.mode == "user":
        isolation.enter_user_namespace()
    isolation.drop_bounding_set()
    isolation.set_limits(limits)
    if plan.mode == "root":
        isolation.drop_uid(uid)
    isolation.drop_capabilities(plan.system_calls)


def _keep(sock: socket.socket, report: int) -> NoReturn:
    """Without a sandbox: run the worker in a child, then end whatever descends from it."""
    isolation.adopt_orphans()
    isolation.die_with_parent(signal.SIGTERM)
    scratch = tempfile.mkdtemp(prefix="coevo-")
    status = 0
    try:
        signal.signal(signal.SIGTERM, _stop)
        start = wire.receive(sock, _START_BYTES)
        folders = f"{scratch}/harness", f"{scratch}/tmp"
        for folder in folders:
            Path(folder).mkdir()
        _write_files(folders[0], start["files"])
        child = os.fork()
        if child == 0:
            _run_plainly(sock, report, start, folders)
        os.close(report)
        sock.close()
        os.waitpid(child, 0)
    except _ToldToEnd:
        pass
    except (OSError, wire.FrameError) as error:
        os.write(report, str(error).encode()[:500])
        status = SETUP_STATUS >> 8
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_descendants()
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(status)


def _stop(*_: object) -> NoReturn:
    raise _ToldToEnd


def _run_plainly(
    sock: socket.socket, report: int, start: dict[str, Any], folders: tuple[str, str]
) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    isolation.die_with_parent(signal.SIGKILL)
    isolation.set_limits(start["limits"], count_processes=False)
    os.write(report, CONFINED.encode())
    os.close(report)
    worker.main(sock, start, folders)


def _end_descendants() -> None:
    """Kill the whole tree below this process; again until nothing is left, for forks race."""
    me = os.getpid()
    while True:
        for pid in usage.by_root([me])[me].pids:
            if pid != me:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
