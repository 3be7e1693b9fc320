"""The first process of a rollout: builds its private world, starts the harness, watches it.

In a sandbox it is the init of a fresh pid namespace: it can't be signalled from inside, and when
it ends the kernel kills everything else in the namespace. Its exit status is the only word about
the rollout's end that evolved code can't forge.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from kernel import isolation, wire, worker

# Exit statuses.
EXITED, SIGNALLED, MEMORY, CPU, SETUP, TOLD = 0, 65, 66, 67, 70, 71
START_BYTES = 256 * 2**20
HARNESS, TMP = "/harness", "/tmp"
_TICK_MS = 100
_CLOCK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _ToldToEnd(Exception):
    """The zygote wants this rollout gone."""


def main(sock: socket.socket, mode: str) -> NoReturn:
    """Run one rollout whose start frame arrives on ``sock``; never returns."""
    status = SETUP
    scratch = None
    try:
        if mode == "none":
            _take_orders()
            scratch = tempfile.mkdtemp(prefix="coevo-")
        start = wire.receive(sock, START_BYTES)
        folders = _plain_folders(scratch) if scratch else _private_folders(start)
        _write_files(Path(folders[0]), start["files"])
        if not scratch:
            isolation.make_readonly(HARNESS)
        child = _start_worker(sock, start, folders, mode)
        sock.close()
        status = Watch(child, start["limits"]).run()
    except _ToldToEnd:
        status = TOLD
    except (OSError, wire.FrameError, KeyError) as error:
        with contextlib.suppress(OSError):
            sock.sendall(wire.encode({"op": "setup_failed", "error": f"{error}"}))
    finally:
        if scratch:
            _end_descendants()
            shutil.rmtree(scratch, ignore_errors=True)
        os._exit(status)


def _start_worker(
    sock: socket.socket, start: dict[str, Any], folders: tuple[str, str], mode: str
) -> int:
    """Fork the harness process; its pid once it has given up its privileges. Raises OSError."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        worker.main(sock, start, folders, mode, writable)
    os.close(writable)
    if mode != "none":
        isolation.forbid_tracing()
    with os.fdopen(readable) as pipe:
        word = pipe.read()
    if word != worker.CONFINED:
        raise OSError(f"the worker could not be confined: {word}")
    return child


def _private_folders(start: dict[str, Any]) -> tuple[str, str]:
    """Mounts that only this rollout sees: its files, a writable /tmp of limited size, its /proc."""
    isolation.unshare(isolation.NEW_MOUNT | isolation.NEW_IPC | isolation.NEW_NET)
    isolation.mount_proc()
    size = sum(len(text) for text in start["files"].values())
    isolation.mount_tmpfs(HARNESS, 2 * size + 2**20 + 4096 * len(start["files"]), "755")
    isolation.mount_tmpfs(TMP, start["limits"]["tmp_bytes"], "1777")
    shared = Path(TMP, ".shm")
    shared.mkdir()
    shared.chmod(0o1777)
    isolation.bind(str(shared), "/dev/shm")
    return HARNESS, TMP


def _plain_folders(scratch: str) -> tuple[str, str]:
    folders = Path(scratch, "harness"), Path(scratch, "tmp")
    for folder in folders:
        folder.mkdir()
    return str(folders[0]), str(folders[1])


def _write_files(folder: Path, files: dict[str, str]) -> None:
    """``files`` maps a path to its text in Latin-1, which carries any bytes through JSON."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))


@dataclass
class Watch:
    """Waits for the harness process and sums what the rollout's processes use together.

    rlimits hold for each process alone; thirty of them could use thirty times as much.
    """

    child: int
    limits: dict[str, Any]
    ended: dict[int, float] = field(default_factory=dict)

    def run(self) -> int:
        descriptor = os.pidfd_open(self.child)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not poll.poll(_TICK_MS):
            _reap_others(self.child)
            processes = list(_processes())
            cpu = sum(process.cpu_s for process in processes)
            if cpu > self.limits["cpu_s"]:
                return CPU
            if self._memory(processes) > self.limits["memory_bytes"]:
                return MEMORY
        _, status = os.waitpid(self.child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return CPU
        return SIGNALLED if code < 0 else EXITED

    def _memory(self, processes: list[Process]) -> int:
        total = sum(process.resident for process in processes)
        if total <= self.limits["memory_bytes"]:
            return total
        # Forks share pages, which resident sizes count again and again.
        return sum(_proportional(process) for process in processes)


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    cpu_s: float  # with its reaped children
    resident: int


def _processes() -> Iterator[Process]:
    """This process's descendants (with their CPU), and itself for its reaped children's CPU."""
    found: dict[int, Process] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                cpu = sum(int(value) for value in fields[11:15]) / _CLOCK
                pid, resident = int(entry.name), int(fields[21]) * _PAGE
                found[pid] = Process(pid, int(fields[1]), cpu, resident)
    ours = {os.getpid()}
    for pid in sorted(found):  # parents mostly come before their children
        ours |= {pid} if found[pid].parent in ours else set()
    return (found[pid] for pid in sorted(ours) if pid in found)


def _proportional(process: Process) -> int:
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _reap_others(child: int) -> None:
    """Orphans of the rollout are adopted here; the harness process itself is left to ``run``."""
    while True:
        try:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if info is None or info.si_pid == child:
            return
        os.waitpid(info.si_pid, 0)


def _take_orders() -> None:
    """Without a namespace: gather orphans here, and end everything when told or left alone."""
    isolation.adopt_orphans()
    isolation.die_with_parent(signal.SIGTERM)

    def stop(*_: object) -> NoReturn:
        raise _ToldToEnd

    signal.signal(signal.SIGTERM, stop)


def _end_descendants() -> None:
    """Kill the whole tree below this process; again until nothing is left, for forks race."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    me = os.getpid()
    while True:
        for process in _processes():
            if process.pid != me:
                with contextlib.suppress(OSError):
                    os.kill(process.pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
