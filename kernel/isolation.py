"""The Linux calls that set one rollout apart: namespaces, mounts, uid, capabilities, rlimits.

Python 3.11 has no ``os.unshare``, so libc is called directly. Every function raises OSError.
"""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path
from typing import Any

from kernel import seccomp

NEW_MOUNT, NEW_IPC, NEW_USER, NEW_PID, NEW_NET = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 32, 4096
_MACHINE_WIDE = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
_PDEATHSIG, _CAPBSET_DROP, _SUBREAPER, _NO_NEW_PRIVS = 1, 24, 36, 38
_NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Move this process (for a pid namespace: its next child) into fresh namespaces."""
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def rejoin(namespace: int, flags: int) -> None:
    """Enter the namespace behind an open descriptor."""
    _check(_libc.setns(namespace, flags), "setns")


def _mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    arguments = [text.encode() for text in (source, target, kind)]
    _check(_libc.mount(*arguments, ctypes.c_ulong(flags), data.encode()), f"mount {target}")


def mount_tmpfs(target: str, size: int, mode: str) -> None:
    """A fresh tmpfs of ``size`` bytes; the inode count is limited too (inodes are memory)."""
    inodes = 1024 + size // 8192
    options = f"size={size},nr_inodes={inodes},mode={mode}"
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, options)


def make_readonly(target: str) -> None:
    _mount("none", target, "none", _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV, "")


def bind(source: str, target: str) -> None:
    _mount(source, target, "none", _MS_BIND, "")


def mount_proc() -> None:
    """``/proc`` of the current pid namespace alone."""
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "")


def protect_settings() -> None:
    """Make the machine's settings under ``/proc`` read-only.

    Needed where the uid can't be dropped: the machine's uid 0 may write them even without any
    capability.
    """
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    for path in _MACHINE_WIDE:
        if Path(path).exists():
            bind(path, path)
            _mount("none", path, "none", flags | _MS_BIND | _MS_REMOUNT | _MS_RDONLY, "")


def die_with_parent(signal_number: int) -> None:
    _check(_libc.prctl(_PDEATHSIG, signal_number, 0, 0, 0), "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Descendants whose parent ends become this process's children."""
    _check(_libc.prctl(_SUBREAPER, 1, 0, 0, 0), "PR_SET_CHILD_SUBREAPER")


def be_killed_first() -> None:
    """When the machine runs out of memory, this process is the one to go."""
    Path("/proc/self/oom_score_adj").write_text("1000")


def set_limits(limits: dict[str, Any], count_processes: bool = True) -> None:
    """Resource limits of one process of a rollout; ``limits`` are the fields of Limits.

    Processes can only be counted by uid, so only where the rollout has a uid of its own.
    """
    seconds = int(limits["cpu_s"])
    pairs = {
        resource.RLIMIT_AS: (limits["memory_bytes"],) * 2,
        resource.RLIMIT_CPU: (seconds + 1, seconds + 30),  # the zygote's watch comes first
        resource.RLIMIT_FSIZE: (limits["tmp_bytes"],) * 2,
        resource.RLIMIT_NOFILE: (limits.get("open_files", 128),) * 2,
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_MSGQUEUE: (0, 0),
    }
    if count_processes:
        pairs[resource.RLIMIT_NPROC] = (limits["processes"],) * 2
    for kind, (soft, hard) in pairs.items():
        _, ceiling = resource.getrlimit(kind)
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(kind, (soft, hard))


def spare_uids() -> range:
    """Uids that most likely nobody uses: the upper half of what is mapped here."""
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    first, _, count = (int(field) for field in lines[-1].split())
    end = min(first + count, 2**31 - 2)
    return range(first + (end - first) // 2, end)


def drop_uid(uid: int) -> None:
    """From root to another user, without groups. Each rollout needs a uid of its own: root has no
    process limit, and two rollouts under one uid would share theirs."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def enter_user_namespace() -> None:
    """The unprivileged counterpart: a nested user namespace, which has its own process count."""
    unshare(NEW_USER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{_NOBODY} 0 1")
    Path("/proc/self/gid_map").write_text(f"{_NOBODY} 0 1")


def drop_bounding_set() -> None:
    drop = _libc.prctl
    for capability in range(64):
        if drop(_CAPBSET_DROP, capability, 0, 0, 0):
            return


def drop_capabilities(system_calls: seccomp.Filter) -> None:
    """No capability left, none to be gained, and the system call filter on."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(none)), "capset")
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    seccomp.install(_libc, system_calls)
