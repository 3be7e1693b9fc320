"""The pool's own life: what dies with whom, and who isn't charged for it."""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from kernel_cases import GOOD_STEPS, LIMITS, PLAIN, RULES, harness, processes

import kernel
from kernel import sandbox
from kernel.contract import Sampling
from kernel.host import WorkerPool
from kernel.sandbox import SandboxUnavailable, WorkerLost
from kernel.scripted import ScriptedModel, ScriptedWorld
from kernel.trajectory import Trajectory

ROOT = Path(kernel.__file__).resolve().parent.parent


def rollout(pool: WorkerPool, files: dict[str, bytes], latency_s: float = 0.0):
    model = ScriptedModel(GOOD_STEPS, latency_s)
    return pool.run(files, "Go.", model, ScriptedWorld(RULES), LIMITS, Sampling(), 1)


def children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return below + [further for child in below for further in descendants(child)]


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.02)
    return False


def test_a_pool_leaves_nothing_behind():
    async def main() -> list[int]:
        async with WorkerPool(warm=2) as pool:
            await asyncio.gather(*[rollout(pool, {"harness.py": PLAIN}) for _ in range(20)])
            spinning = asyncio.create_task(rollout(pool, harness("while True: pass")))
            await asyncio.sleep(0.3)
            pids = [pid for pid in descendants(os.getpid()) if pid not in others]
            assert len(pids) >= 4
        with pytest.raises(WorkerLost):
            await spinning
        return pids

    others = set(descendants(os.getpid()))  # of other tests' servers
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert gone(asyncio.run(main()))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_cancelled_rollout_ends_at_once():
    marker = "cancel" + secrets.token_hex(8)
    body = f"""
    import subprocess, sys
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99) # {marker}"])
    while True: pass
    """

    async def main() -> None:
        async with WorkerPool() as pool:
            task = asyncio.create_task(rollout(pool, harness(body)))
            while not processes(marker):
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not processes(marker)
            assert (await rollout(pool, {"harness.py": PLAIN})).end == "answered"

    asyncio.run(main())


def zygotes() -> list[int]:
    """The python process below each bwrap below this process."""
    return [
        pid
        for pid in descendants(os.getpid())
        if b"kernel.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()
        and b"bwrap" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    ]


def test_a_lost_zygote_is_replaced_and_nobody_is_charged():
    async def main() -> None:
        async with WorkerPool() as pool:
            (zygote,) = [pid for pid in zygotes() if not children(pid)]
            running = [
                asyncio.create_task(rollout(pool, {"harness.py": PLAIN}, 1.0)) for _ in range(4)
            ]
            await asyncio.sleep(0.4)
            os.kill(zygote, signal.SIGKILL)
            for outcome in await asyncio.gather(*running, return_exceptions=True):
                assert isinstance(outcome, WorkerLost)
            trajectory = await rollout(pool, {"harness.py": PLAIN})
            assert trajectory.end == "answered"

    asyncio.run(main())


def test_a_rollout_lost_before_it_touched_anything_is_simply_run_again():
    async def main() -> Trajectory:
        async with WorkerPool() as pool:
            (zygote,) = zygotes()
            slow = {"harness.py": b"import time; time.sleep(0.6)\n" + PLAIN}
            running = asyncio.create_task(rollout(pool, slow))
            await asyncio.sleep(0.3)
            os.kill(zygote, signal.SIGKILL)
            return await running

    assert asyncio.run(main()).end == "answered"


def test_one_rollout_killed_by_the_machine_is_lost_not_wrong():
    async def main() -> None:
        async with WorkerPool() as pool:
            first = asyncio.create_task(rollout(pool, {"harness.py": PLAIN}, 0.5))
            await asyncio.sleep(0.3)
            (zygote, worker) = sorted(zygotes())
            second = asyncio.create_task(rollout(pool, {"harness.py": PLAIN}, 0.5))
            assert children(zygote) == [worker]
            os.kill(worker, signal.SIGKILL)
            with pytest.raises(WorkerLost):
                await first
            assert (await second).end == "answered"

    asyncio.run(main())


HOST = """
import asyncio, sys
sys.path[:0] = [{root!r}, {tests!r}]
from kernel_cases import *
from kernel.scripted import *
async def main():
    async with WorkerPool({mode!r}) as pool:
        files = harness({body!r})
        runs = [
            pool.run(files, "x", ScriptedModel([text("x")]), ScriptedWorld(RULES), LIMITS,
                     Sampling(), 0)
            for _ in range(3)
        ]
        await asyncio.gather(*runs)
asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ["bwrap", "none"])
def test_killing_the_host_kills_every_process(mode):
    marker = "hostless" + secrets.token_hex(8)
    body = f"""
    import os, subprocess, sys
    code = "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(99) # {marker}"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    while True: pass
    """
    tests = str(Path(__file__).parent)
    program = HOST.format(root=str(ROOT), tests=tests, mode=mode, body=textwrap.dedent(body))
    host = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while len(processes(marker)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        pids = [*descendants(host.pid), *processes(marker)]
        assert len(processes(marker)) >= 3
    finally:
        host.kill()
        host.wait()
    assert gone(pids)
    assert not processes(marker)


OTHER_USER = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
import asyncio, json
from kernel import sandbox
from kernel.contract import *
from kernel.host import WorkerPool
from kernel.scripted import *
assert sandbox.available() == "", sandbox.available()
BODY = b'''
import json, os, socket, time

def attempt(what):
    try:
        eval(what)
    except OSError:
        return "refused"
    return "open"

async def run(instruction, model, world):
    tried = [attempt(what) for what in (
        "os.listdir('/root')", "open('/x', 'w')", "open('/dev/x', 'w')", "socket.socket()",
        "open('/harness/harness.py', 'w')")]
    forks = 0
    try:
        while os.fork():
            forks += 1
        time.sleep(60)
    except OSError:
        pass
    await world.exec(json.dumps([tried, forks, os.getuid(), os.listdir("/tmp")]))
'''
async def main():
    worlds = [ScriptedWorld() for _ in range(3)]
    async with WorkerPool() as pool:
        runs = [pool.run({"harness.py": BODY}, "x", ScriptedModel([text("x")]), world,
                         Limits(processes=10, wall_s=20), Sampling(), 0) for world in worlds]
        for trajectory in await asyncio.gather(*runs):
            assert trajectory.end == "answered", trajectory
    for world in worlds:
        tried, forks, uid, files = json.loads(world.calls[0][1]["command"])
        assert set(tried) == {"refused"}, tried
        assert (forks, uid, files) == (9, 65534, [".shm"]), (forks, uid, files)
asyncio.run(main())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_than_root_is_sandboxed_too(tmp_path):
    shutil.copytree(ROOT / "kernel", tmp_path / "kernel")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
        if folder == Path("/tmp"):
            break
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("no python that another user can run")
    done = subprocess.run(
        [python, "-c", OTHER_USER], cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_no_bubblewrap_is_said_with_the_mend(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install bubblewrap" in sandbox.available()
    assert "sandbox: none" in sandbox.available()

    async def main() -> None:
        async with WorkerPool():
            pass

    with pytest.raises(SandboxUnavailable, match="not installed"):
        asyncio.run(main())


def test_a_bubblewrap_that_fails_is_quoted(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "No permissions to create new namespace" in sandbox.available()


def test_an_unknown_mode_lists_the_known_ones():
    async def main() -> None:
        async with WorkerPool("docker"):
            pass

    with pytest.raises(SandboxUnavailable, match="bwrap, none"):
        asyncio.run(main())


def test_a_worker_that_cannot_be_set_up_is_no_harness_error():
    async def main() -> None:
        async with WorkerPool() as pool:
            with pytest.raises(SandboxUnavailable, match="could not be set up"):
                await rollout(pool, {"harness.py": PLAIN, "harness.py/x": b""})
            assert (await rollout(pool, {"harness.py": PLAIN})).end == "answered"

    asyncio.run(main())


def test_inspection_finds_what_the_contract_misses():
    good = {"harness.py": PLAIN + b"\nclass Agent:\n    async def step(self): ...\n"}

    async def main() -> None:
        async with WorkerPool() as pool:
            assert await pool.inspect(good, {"Agent.step": ()}, LIMITS) == []
            found = await pool.inspect(good, {"Agent.stop": (), "Agent.step": ("x",)}, LIMITS)
            assert found == [
                "harness.py does not define Agent.stop()",
                "Agent.step takes (), the contract says (x)",
            ]
            (found,) = await pool.inspect({"harness.py": b"1/0"}, {}, LIMITS)
            assert "ZeroDivisionError" in found
            found = await pool.inspect({"harness.py": b"def run(a): 0", "b.py": b"("}, {}, LIMITS)
            assert found[0].startswith("b.py does not compile")
            assert len(found) == 2

    asyncio.run(main())


def test_the_digest_follows_the_sources():
    assert kernel.digest() == kernel.digest()
    assert len(kernel.digest()) == 64
