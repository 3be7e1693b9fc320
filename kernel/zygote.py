"""The warm process: it has loaded the kernel, forks once per rollout, watches, tells who died.

It runs under bubblewrap without network or foreign files and keeps its privilege there, because
it never runs evolved code: each fork gives that up before the harness is imported. Started as
``zygote.main(mode)`` with a SOCK_SEQPACKET socket to the host as descriptor 0:

host → ``{"op": "start", "id", "cpu_s", "memory_bytes", "processes"}`` with the rollout's own stream
socket attached, ``{"op": "kill", "id"}``; zygote → ``{"op": "ready"}``, ``{"op": "dead", "id",
"reason", "detail"}`` with a reason of ``REASONS``. A forked process is the init of a pid namespace
of its own: dead means that nothing of the rollout is left.
"""

from __future__ import annotations

import gc
import json
import os
import random
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

# Loaded before the fork, so that no rollout pays for them.
from kernel import isolation, rollout, usage, worker

EXITED, KILLED, SETUP = "exited", "killed", "setup"
MEMORY, CPU, PROCESSES = "memory", "cpu", "processes"
REASONS = (EXITED, KILLED, SETUP, MEMORY, CPU, PROCESSES)
_TICK_S = 0.25


@dataclass
class Child:
    """One forked rollout. ``report`` is where it says that it gave up its privileges."""

    number: int
    pid: int
    watch: int
    report: int
    cpu_s: float
    memory_bytes: int
    processes: int
    reason: str = ""


@dataclass
class Zygote:
    """``plan.mode`` is "root" or "user" (who the zygote is inside bubblewrap), or "none"."""

    plan: rollout.Plan
    control: socket.socket
    poll: select.poll = field(default_factory=select.poll)
    children: dict[int, Child] = field(default_factory=dict)  # by pidfd
    namespace: int = -1
    next_uid: int = field(default_factory=lambda: random.SystemRandom().randrange(2**31))

    def run(self) -> None:
        if self.plan.mode != "none":
            self.namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.poll.register(self.control, select.POLLIN)
        rollout.silence(2)  # so far for what can go wrong at the start
        self.tell(op="ready")
        due = 0.0
        while True:
            for descriptor, _ in self.poll.poll(_TICK_S * 1000 if self.children else None):
                if descriptor != self.control.fileno():
                    self.reap(self.children.pop(descriptor))
                elif not self.obey():
                    return
            if self.children and time.monotonic() >= due:
                self.enforce()
                due = time.monotonic() + _TICK_S

    def tell(self, **message: object) -> None:
        self.control.send(json.dumps(message).encode())

    def obey(self) -> bool:
        """Carry out one command; False when the host is gone."""
        payload, descriptors, _, _ = socket.recv_fds(self.control, 4096, 1)
        if not payload:
            return False
        command = json.loads(payload)
        if command["op"] == "start":
            self.start(command, descriptors[0])
        else:
            for child in self.children.values():
                if child.number == command["id"]:
                    self.kill(child)
        return True

    def kill(self, child: Child) -> None:
        # A namespace's init takes everything along; a plain keeper has to do it by hand.
        os.kill(child.pid, signal.SIGTERM if self.plan.mode == "none" else signal.SIGKILL)

    def start(self, command: dict[str, Any], descriptor: int) -> None:
        readable, writable = os.pipe()
        self.next_uid += 1
        uid = self.plan.uids[self.next_uid % len(self.plan.uids)] if self.plan.uids else 0
        if self.plan.mode != "none":
            isolation.unshare(isolation.NEW_PID)
        pid = os.fork()
        if pid == 0:
            rollout.main(descriptor, writable, self.plan, uid)
        if self.plan.mode != "none":
            isolation.rejoin(self.namespace, isolation.NEW_PID)
        os.close(descriptor)
        os.close(writable)
        watch = os.pidfd_open(pid)
        limits = command["cpu_s"], command["memory_bytes"], command["processes"]
        self.children[watch] = Child(command["id"], pid, watch, readable, *limits)
        self.poll.register(watch, select.POLLIN)

    def reap(self, child: Child) -> None:
        _, status = os.waitpid(child.pid, 0)
        self.poll.unregister(child.watch)
        os.close(child.watch)
        with os.fdopen(child.report) as pipe:
            word = pipe.read()
        reason, detail = child.reason, ""
        if word != rollout.CONFINED and status == rollout.SETUP_STATUS:
            reason, detail = SETUP, word[:500]
        elif not reason:
            # An init ignores SIGKILL from within: it came from the host or the machine.
            reason = KILLED if status == signal.SIGKILL else EXITED
        self.tell(op="dead", id=child.number, reason=reason, detail=detail)

    def enforce(self) -> None:
        """rlimits hold for one process; these hold for all processes of a rollout together."""
        totals = usage.by_root([child.pid for child in self.children.values()])
        for child in self.children.values():
            if not child.reason:
                child.reason = _excess(child, totals[child.pid])
                if child.reason:
                    self.kill(child)


def _excess(child: Child, total: usage.Usage) -> str:
    if total.cpu_s > child.cpu_s:
        return CPU
    if len(total.pids) > child.processes + 1:
        return PROCESSES
    return MEMORY if total.memory_bytes(child.memory_bytes) > child.memory_bytes else ""


def main(mode: str) -> None:
    # Evolved code must find the kernel it was forked with, and nothing beside it.
    sys.path.pop(0)
    worker.preload()
    control = socket.socket(fileno=os.dup(0))
    rollout.silence(0)
    if mode == "none":
        isolation.adopt_orphans()
    zygote = Zygote(rollout.plan(mode), control)
    gc.collect()
    gc.freeze()
    try:
        zygote.run()
    finally:
        for child in zygote.children.values():
            zygote.kill(child)
        for child in zygote.children.values():
            os.waitpid(child.pid, 0)
