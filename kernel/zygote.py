"""The warm process: it has loaded the kernel, forks once per rollout, and tells who died.

It runs under bubblewrap without network or foreign files and keeps its privilege there, because
it never runs evolved code: each fork gives that up before the harness is imported. Started as
``zygote.main(mode)`` with a SOCK_SEQPACKET socket to the host as descriptor 0:

host → ``{"op": "start", "id": n}`` with the rollout's own stream socket attached,
``{"op": "kill", "id": n}``; zygote → ``{"op": "ready"}``, ``{"op": "dead", "id", "status"}``.
A rollout is dead when its pid namespace is: nothing of it is left by then.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass, field

# Loaded before the fork, so that no rollout pays for them.
from kernel import isolation, supervisor, worker

ROLLOUT_FD = 3


@dataclass
class Zygote:
    """``mode`` is "root" or "user" (who the zygote is inside bubblewrap), or "none"."""

    mode: str
    control: socket.socket
    poll: select.poll = field(default_factory=select.poll)
    pids: dict[int, int] = field(default_factory=dict)  # rollout id -> pid of its init
    waiting: dict[int, int] = field(default_factory=dict)  # pidfd -> rollout id
    namespace: int = -1

    def run(self) -> None:
        if self.mode != "none":
            self.namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.poll.register(self.control, select.POLLIN)
        self.tell(op="ready")
        while True:
            for descriptor, _ in self.poll.poll():
                if descriptor != self.control.fileno():
                    self.reap(descriptor)
                elif not self.obey():
                    return

    def tell(self, **message: object) -> None:
        self.control.send(json.dumps(message).encode())

    def obey(self) -> bool:
        """Carry out one command; False when the host is gone."""
        payload, descriptors, _, _ = socket.recv_fds(self.control, 4096, 1)
        if not payload:
            return False
        command = json.loads(payload)
        if command["op"] == "start":
            self.start(command["id"], descriptors[0])
        elif command["id"] in self.pids:
            os.kill(self.pids[command["id"]], self.kill_signal)
        return True

    @property
    def kill_signal(self) -> int:
        # A namespace's init takes everything along; a plain supervisor has to do it by hand.
        return signal.SIGTERM if self.mode == "none" else signal.SIGKILL

    def start(self, rollout: int, descriptor: int) -> None:
        if self.mode != "none":
            isolation.unshare(isolation.NEW_PID)
        pid = os.fork()
        if pid == 0:
            os.dup2(descriptor, ROLLOUT_FD)
            os.closerange(ROLLOUT_FD + 1, 65536)
            _silence(0)
            supervisor.main(socket.socket(fileno=ROLLOUT_FD), self.mode)
        if self.mode != "none":
            isolation.rejoin(self.namespace, isolation.NEW_PID)
        os.close(descriptor)
        watch = os.pidfd_open(pid)
        self.pids[rollout], self.waiting[watch] = pid, rollout
        self.poll.register(watch, select.POLLIN)

    def reap(self, watch: int) -> None:
        rollout = self.waiting.pop(watch)
        _, status = os.waitpid(self.pids.pop(rollout), 0)
        self.poll.unregister(watch)
        os.close(watch)
        self.tell(op="dead", id=rollout, status=os.waitstatus_to_exitcode(status))


def _silence(descriptor: int) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def main(mode: str) -> None:
    # Evolved code must find the kernel it was forked with, and nothing beside it.
    sys.path.pop(0)
    sys.dont_write_bytecode = True
    worker.preload()
    control = socket.socket(fileno=os.dup(0))
    control.set_inheritable(False)
    if mode == "none":
        isolation.adopt_orphans()
    gc.collect()
    gc.freeze()
    zygote = Zygote(mode, control)
    try:
        zygote.run()
    finally:
        for pid in zygote.pids.values():
            os.kill(pid, zygote.kill_signal)
        for pid in zygote.pids.values():
            os.waitpid(pid, 0)
