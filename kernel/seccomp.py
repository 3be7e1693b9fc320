"""A system call filter for evolved code: what namespaces, uids and rlimits alone don't close.

Refused are the calls that open new namespaces (and with them fresh capabilities), kernel memory
that no limit counts (memfd, System V), key rings (they outlive a process), sockets other than
pairs, tracing, and io_uring, which would bypass the filter.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_CLONE_NEW = 0x7E020000  # every CLONE_NEW* flag that clone takes
_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARG0 = 0, 4, 16

_X86 = {
    "clone": 56, "clone3": 435, "shmget": 29, "socket": 41, "semget": 64, "msgget": 68,
    "ptrace": 101, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166,
    "mq_open": 240, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
    "perf_event_open": 298, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
    "kcmp": 312, "memfd_create": 319, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_ARM = {
    "clone": 220, "clone3": 435, "shmget": 194, "socket": 198, "semget": 190, "msgget": 186,
    "ptrace": 117, "pivot_root": 41, "chroot": 51, "mount": 40, "umount2": 39,
    "mq_open": 180, "add_key": 217, "request_key": 218, "keyctl": 219, "unshare": 97,
    "perf_event_open": 241, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
    "kcmp": 272, "memfd_create": 279, "bpf": 280, "userfaultfd": 282,
}  # fmt: skip
_COMMON = {
    "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "pidfd_getfd": 438, "memfd_secret": 447,
}  # fmt: skip
MACHINES = {"x86_64": (0xC000003E, _X86), "aarch64": (0xC00000B7, _ARM)}


def program(machine: str) -> bytes:
    """The filter as BPF code. Raises KeyError for a machine that isn't in ``MACHINES``."""
    arch, calls = MACHINES[machine]
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    code = [(_LOAD, 0, 0, _OFFSET_ARCH), (_JEQ, 1, 0, arch), refuse, (_LOAD, 0, 0, _OFFSET_NUMBER)]
    if machine == "x86_64":  # the x32 numbers would be a second way to every call
        code += [(_JGE, 0, 1, 0x40000000), refuse]
    for name, number in {**calls, **_COMMON}.items():
        if name == "clone":
            continue
        # libc falls back from clone3 to clone, whose flags a filter can read
        answer = errno.ENOSYS if name == "clone3" else errno.EPERM
        code += [(_JEQ, 0, 1, number), (_RETURN, 0, 0, _ERRNO | answer)]
    code += [
        (_JEQ, 0, 3, calls["clone"]),
        (_LOAD, 0, 0, _OFFSET_ARG0),
        (_JSET, 0, 1, _CLONE_NEW),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


class Filter(ctypes.Structure):
    """A prepared program; made before the fork, installed after it."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))
    buffer: object  # what ``code`` points at


def prepare() -> Filter:
    """The filter for this machine. Raises KeyError where there is none."""
    code = program(platform.machine())
    filter_ = Filter(len(code) // 8, None)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_.code = ctypes.cast(buffer, ctypes.c_void_p)
    filter_.buffer = buffer
    return filter_


def install(libc: ctypes.CDLL, filter_: Filter) -> None:
    """Filter this process and its children for good. Needs no_new_privs. Raises OSError."""
    if libc.prctl(22, 2, ctypes.byref(filter_), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "seccomp filter refused")
