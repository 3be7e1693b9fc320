"""Evolved code that means harm. Each test is a real process; innocents run beside it."""

import json
import os
import secrets
import time

import pytest
from kernel_cases import (
    LIMITS,
    PLAIN,
    RULES,
    harness,
    play,
    play_beside_innocents,
    processes,
    tell,
)

from kernel.contract import Limits, Sampling
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, ScriptedWorld, call, text


def gone(marker: str) -> bool:
    deadline = time.monotonic() + 30
    while processes(marker) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not processes(marker)


def test_it_sees_no_files_keys_labels_or_processes_of_the_host(tmp_path, monkeypatch):
    secret = "label-" + secrets.token_hex(8)
    (tmp_path / "gold.json").write_text(secret)
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    body = f"""
    import json, os, glob
    found = [dict(os.environ)]
    for pattern in ("/proc/*/environ", "/proc/*/cmdline", "/proc/*/maps", "{tmp_path}/*"):
        for path in glob.glob(pattern):
            try:
                found.append(open(path, "rb").read().decode("latin-1"))
            except OSError as error:
                found.append(str(error))
    walk = [os.path.join(a, n) for a, _, names in os.walk("/") for n in names
            if not a.startswith(("/usr", "/proc", "/sys", "/lib", os.path.dirname(os.__file__)))]
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    await world.exec(json.dumps([found, [w for w in walk if "gold" in w], pids, os.getuid()]))
    """
    found, gold, pids, uid = tell(harness(body))
    assert secret not in str(found)
    assert gold == []
    assert pids == ["1"]
    assert uid not in (0, os.getuid())


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/harness/harness.py', 'a')",
        "open('/coevo/kernel/worker.py', 'a')",
        "open('/x', 'w')",
        "open('/dev/x', 'w')",
        "open('/usr/x', 'w')",
        "open('/etc/passwd').read()",
        "open('/root/.bashrc').read()",
        "open('/proc/sys/kernel/hostname', 'w')",
        "open('/proc/sysrq-trigger', 'w')",
        "os.listdir('/srv')",
        "os.listdir('/home')",
        "os.setuid(0)",
        "os.chroot('/tmp')",
        "os.mknod('/tmp/disk', 0o60600, os.makedev(254, 0))",
        "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "socket.create_connection(('127.0.0.1', 80), 1)",
        "socket.create_connection(('1.1.1.1', 80), 1)",
        "socket.socket(socket.AF_UNIX).bind('\\0rendezvous')",
        "os.memfd_create('x')",
        "libc(lib.unshare(0x10000000))",
        "libc(lib.unshare(0x20000))",
        "libc(lib.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None))",
        "libc(lib.shmget(0, 4096, 0o1600))",
        "libc(lib.syscall(250, 0, -4, 1))",  # keyctl: the user's key ring
        "libc(lib.ptrace(16, 1, 0, 0))",
        "libc(lib.setns(os.open('/proc/self/ns/net', 0), 0))",
        "libc(lib.syscall(56, 0x10000011, 0, 0, 0, 0))",  # clone into a user namespace
        "libc(lib.syscall(425, 8, 0))",  # io_uring
    ],
)
def test_what_is_not_its_own_is_refused(attempt):
    body = f"""
    import ctypes, json, os, resource, socket
    lib = ctypes.CDLL(None, use_errno=True)
    def libc(result):
        if result == -1:
            raise OSError(ctypes.get_errno(), "refused")
        return result
    try:
        got = repr({attempt})
    except (OSError, ValueError) as error:
        got = "refused"
    await world.exec(json.dumps(got))
    """
    assert tell(harness(body)) == "refused"


FORK_BOMB = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
"""
MEMORY_BOMB = """
held = []
while True:
    held.append(bytearray(2**20))
"""
MANY_MEMORY_BOMBS = """
import os, time
for _ in range(12):
    if os.fork() == 0:
        held = [b"x" * 2**20 for _ in range(150)]
        time.sleep(60)
        os._exit(0)
time.sleep(60)
"""
MANY_SPINNERS = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        while True:
            pass
time.sleep(60)
"""
DISK = """
import os
for n in range(10_000):
    with open(f"/tmp/{n}", "wb") as f:
        f.write(b"x" * 2**20)
"""
SHARED_DISK = DISK.replace("/tmp/", "/dev/shm/")
INODES = """
for n in range(10_000_000):
    open(f"/tmp/{n}", "w").close()
"""
SPIN = "while True: pass"
STUBBORN = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True: pass
"""


@pytest.mark.parametrize(
    ("body", "limit", "end", "word"),
    [
        (FORK_BOMB, {"wall_s": 2.5}, "timeout", "of its own time"),
        (MEMORY_BOMB, {}, "harness_error", "MemoryError"),
        (MANY_MEMORY_BOMBS, {}, "harness_error", "memory limit"),
        (MANY_SPINNERS, {"cpu_s": 1}, "timeout", "CPU limit"),
        (DISK, {}, "harness_error", "No space left"),
        (SHARED_DISK, {}, "harness_error", "No space left"),
        (INODES, {}, "harness_error", "No space left"),
        (SPIN, {"wall_s": 2.5}, "timeout", "of its own time"),
        (STUBBORN, {"cpu_s": 1}, "timeout", "CPU limit"),
    ],
    ids=["forks", "memory", "memories", "spinners", "disk", "shm", "inodes", "spin", "stubborn"],
)
def test_it_exhausts_nothing_but_its_own_share(body, limit, end, word):
    """Times are long where another limit has to come first: a busy machine is slow."""
    room = {"turns": 4, "processes": 20, "memory_bytes": 400 * 2**20}
    limits = Limits(**{"wall_s": 60.0, "cpu_s": 60, **room, **limit})
    trajectory = play_beside_innocents(harness(body), limits)
    assert trajectory.end == end, trajectory
    assert word in trajectory.error


@pytest.mark.parametrize("sandbox", ["bwrap", "none"])
@pytest.mark.parametrize("last", ["return", "time.sleep(60)", "raise ValueError", "os._exit(0)"])
def test_a_grandchild_does_not_outlive_it(last, sandbox):
    marker = "orphan" + secrets.token_hex(8)
    child = f"import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(300) # {marker}"
    body = f"""
    import os, subprocess, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            subprocess.Popen([sys.executable, "-S", "-c", {child!r}], start_new_session=True)
        os._exit(0)
    os.wait()
    time.sleep(0.5)
    await world.call("look", {{"room": str(os.listdir("/proc"))}})
    {last}
    """
    wall_s = 5.0 if "sleep" in last else 60.0
    limits = Limits(turns=4, wall_s=wall_s, cpu_s=60)
    world = ScriptedWorld(RULES)
    trajectory = play(harness(body), world=world, limits=limits, sandbox=sandbox)
    assert len(world.calls) == 1, trajectory
    assert gone(marker)


FRAME = """
    import json, os, struct
    def frame(value):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return struct.pack(">I", len(data)) + data
    def forge(data):
        os.set_blocking(3, True)
        os.write(3, data)
"""


@pytest.mark.parametrize(
    "forged",
    [
        "frame({'op': 'answer', 'value': 7})",
        "frame({'op': 'score', 'score': 1.0})",
        "frame({'op': 'reply', 'turn': 0, 'violation': ''})",
        "frame({'op': ['chat']})",
        "frame({'op': 'chat', 'id': 'x', 'messages': [], 'tools': []})",
        "frame({'op': 'chat', 'id': 1, 'messages': 'all', 'tools': []})",
        "frame({'op': 'call', 'id': 1, 'name': ['final_answer'], 'arguments': {}})",
        "frame({'op': 'call', 'id': 1, 'name': 'final_answer', 'arguments': [7]})",
        "frame({'op': 'exec', 'id': 1, 'command': None})",
        "frame({'op': 'end'})",
        "frame(b'[]')",
        "frame(b'{\"op\": NaN}')",
        "frame(b'{\"a\":' * 50000)",
        "frame(b'\\xff')",
        "struct.pack('>I', 2**32 - 1)",
        "b'garbage, garbage, garbage'",
    ],
)
def test_forged_frames_end_the_rollout(forged):
    body = FRAME + f"    forge({forged})\n    import asyncio\n    await asyncio.sleep(30)\n"
    trajectory = play(harness(body))
    assert (trajectory.end, trajectory.answer) == ("harness_error", None)
    assert (trajectory.turns, trajectory.violations) == (0, 0)
    assert trajectory.error.startswith("protocol:")


def test_a_forged_ending_gains_nothing():
    fields = "'op': 'end', 'error': '', 'code': '', 'end': 'answered', 'answer': 7, 'turns': 99"
    trajectory = play(harness(FRAME + f"    forge(frame({{{fields}}}))\n    while True: pass"))
    assert (trajectory.end, trajectory.answer, trajectory.turns) == ("no_answer", None, 0)


def test_a_flood_of_requests_is_stopped():
    body = """
    import asyncio
    async def ask():
        while True:
            await world.call("look", {"room": "x"})
    await asyncio.gather(*[ask() for _ in range(8)])
    """
    trajectory = play_beside_innocents(harness(body), innocents=1)
    assert trajectory.end == "harness_error"
    assert "calls to the world" in trajectory.error
    assert len(trajectory.events) < 1000


def test_requests_that_never_repeat_cannot_fill_the_record():
    body = """
    for n in range(6):
        await model.chat([{"role": "user", "content": str(n) * 900_000}])
    """
    limits = Limits(turns=6, message_bytes=1_000_000)
    trajectory = play(harness(body), [text("x")], limits=limits)
    assert trajectory.end == "harness_error"
    assert "bytes in all" in trajectory.error


def test_a_record_is_no_larger_than_a_message_may_be():
    body = """
    for n in range(5):
        await model.chat([{"role": "user", "content": str(n) * 200_000}])
    """
    kept = play(harness(body), [text("x")])
    assert (kept.end, kept.turns) == ("no_answer", 5)
    more = play(harness(body.replace("range(5)", "range(6)")), [text("x")])
    assert (more.end, more.turns) == ("harness_error", 5)
    assert len(json.dumps(more.to_json())) < 1.1 * 2**20


def test_calls_of_any_size_cannot_fill_the_record():
    body = """
    for n in range(100):
        await world.call("look", {"room": str(n) * 400_000})
    """
    trajectory = play(harness(body), limits=Limits(turns=6, message_bytes=1_000_000))
    assert (trajectory.end, "bytes in all" in trajectory.error) == ("harness_error", True)


def test_deep_nesting_is_refused_before_it_can_hurt():
    body = """
    deep = []
    for _ in range(500):
        deep = [deep]
    await world.call("look", {"room": deep})
    """
    trajectory = play(harness(body))
    assert (trajectory.end, "nested" in trajectory.error) == ("harness_error", True)
    parsed = play(harness("await model.chat([])"), [call("look", "[" * 500 + "]" * 500)])
    assert (parsed.end, parsed.violations) == ("no_answer", 1)


def test_forks_are_counted_without_a_sandbox_too():
    body = """
    import os, time
    for _ in range(30):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    time.sleep(60)
    """
    trajectory = play(harness(body), limits=Limits(processes=10, wall_s=20), sandbox="none")
    assert (trajectory.end, trajectory.error) == ("harness_error", "over the process limit")


def test_patching_the_kernel_fools_only_itself():
    body = """
    import kernel.mismatch, kernel.worker, kernel.contract
    kernel.mismatch.violation = lambda *_: ""
    kernel.contract.Reply = None
    world.rules = None
    world.answer = {"value": 7}
    await model.chat([])
    """
    trajectory = play_beside_innocents(harness(body))
    assert (trajectory.end, trajectory.answer) == ("no_answer", None), trajectory.error
    assert (trajectory.turns, trajectory.violations) == (1, 1)


KEEP = """
import json, os, socket, sys, kernel.worker, builtins
traces = []
for folder in ("/tmp", "/dev/shm", "/harness", "/dev", "/"):
    traces += [name for name in os.listdir(folder) if "trace" in name]
traces += [name for name in os.environ if "TRACE" in name]
traces += [name for name in dir(builtins) + dir(kernel.worker) + dir(json) if "trace_" in name]
for folder in ("/tmp", "/dev/shm", "/harness", "/dev", "/"):
    try:
        open(folder + "/trace", "w").close()
    except OSError:
        pass
os.environ["TRACE"] = builtins.trace_ = kernel.worker.trace_ = json.trace_ = "1"
os.umask(0)
"""


@pytest.mark.parametrize("sandbox", ["bwrap", "none"])
def test_nothing_is_carried_from_one_task_to_the_next(sandbox):
    import asyncio

    files = harness("await world.exec(json.dumps(traces))", KEEP)

    async def main() -> list[str]:
        said = []
        async with WorkerPool(sandbox) as pool:
            for _ in range(3):
                world, model = ScriptedWorld(), ScriptedModel([text("x")])
                await pool.run(files, "x", model, world, LIMITS, Sampling(), 0)
                said += [arguments["command"] for _, arguments in world.calls]
        return said

    if sandbox == "none":  # only what lives in the process; the file system is shared there
        folders = '("/tmp", "/dev/shm", "/harness", "/dev", "/")'
        files = {"harness.py": files["harness.py"].replace(folders.encode(), b'(".",)')}
    assert asyncio.run(main()) == ["[]"] * 3


def test_two_tasks_at_once_share_no_place_to_meet():
    import asyncio

    body = """
    import asyncio, json, os, socket
    met = []
    for n in range(20):
        open(f"/tmp/{instruction}", "w").close()
        met += [x for x in os.listdir("/tmp") + os.listdir("/proc") if x in ("a", "b", "2", "3")]
        await asyncio.sleep(0.02)
    ids = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "net", "ipc", "mnt")]
    await world.exec(json.dumps([sorted(set(met)), ids, os.getuid()]))
    """

    async def main() -> list[str]:
        async with WorkerPool() as pool:
            worlds = [ScriptedWorld(), ScriptedWorld()]
            runs = [
                pool.run(
                    harness(body), name, ScriptedModel([text("x")]), world, LIMITS, Sampling(), 0
                )
                for name, world in zip("ab", worlds, strict=True)
            ]
            await asyncio.gather(*runs)
        return [world.calls[0][1]["command"] for world in worlds]

    import json

    (first, ids, uid), (second, others, other) = map(json.loads, asyncio.run(main()))
    assert (first, second) == (["a"], ["b"])
    assert not set(ids) & set(others)
    if uid != 65534:  # without the right to change uids, user namespaces tell them apart
        assert uid != other


def test_closing_the_pipe_or_writing_to_foreign_descriptors_is_its_own_loss():
    body = """
    import os, time
    for descriptor in [0, 1, 2, *range(4, 200)]:
        try:
            os.write(descriptor, b"x" * 100)
        except OSError:
            pass
    os.close(3)
    time.sleep(30)
    """
    trajectory = play_beside_innocents(harness(body))
    assert trajectory.end == "harness_error"
    assert trajectory.error == "the harness closed its connection"


def test_a_plain_harness_passes_the_same_crowd():
    trajectory = play_beside_innocents({"harness.py": PLAIN})
    assert trajectory.end == "no_answer"
