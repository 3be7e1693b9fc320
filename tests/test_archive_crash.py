"""Killed at any instant, beside git's own housekeeping, beside another writer, on a full disk."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from archive_case import FILES, RUN, begun, clean, git, measured, offspring, one_round, repository
from runs import wait_for

from engine.archive import Archive, HarnessDraft
from engine.errors import ArchiveError, ArchiveLocked

WRITER = Path(__file__).with_name("archive_writer.py")
ROOT = Path(__file__).parents[1]


def started(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )


def orphans(session: int) -> list[int]:
    """Who lives on of a process's session: the git that a killed writer had at work."""
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        with suppress(ProcessLookupError):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def lines(process: subprocess.Popen[str]) -> list[list[str]]:
    assert process.stdout
    said = process.stdout.read()
    process.stdout.close()
    return [line.split() for line in said.splitlines()]


def branches(root: Path) -> dict[str, str]:
    rows = git(root, "for-each-ref", "--format=%(refname) %(objectname)", f"refs/heads/{RUN}")
    return dict(row.split() for row in rows.splitlines())


@pytest.mark.crash
def test_killed_at_any_instant(tmp_path: Path) -> None:
    begun(tmp_path)
    luck = random.Random(os.urandom(8))
    reached = 0
    was_running = 0
    for attempt in range(8):
        process = started(WRITER, tmp_path, reached + 1)
        assert process.stdout and process.stdout.readline() == "ready\n"
        read = [process.stdout.readline().split() for _ in range(attempt % 4)]
        time.sleep(luck.uniform(0.0, 0.03))
        process.send_signal(signal.SIGKILL)
        was_running += process.wait() == -signal.SIGKILL
        finished = read + lines(process)
        wait_for(lambda pid=process.pid: not orphans(pid))  # fsck can't read beside a repack
        assert clean(tmp_path) or "dangling" in git(tmp_path, "fsck", "--full")
        archive = Archive.open(tmp_path, RUN)
        archive.recover()
        tip = archive.tip()
        assert tip is not None
        newest = max([int(n) for what, n in finished if what == "round"], default=reached)
        assert newest <= tip.round <= newest + 1
        reached = tip.round
        known = {h.round for h in archive.harnesses(include_rejected=True)}
        assert {int(n) for what, n in finished if what == "harness"} <= known
        for round_ in known - {0}:  # K together or none
            both = [h for h in archive.harnesses(include_rejected=True) if h.round == round_]
            assert [h.slot for h in both] == ["k1", "k2", "k3"]
        wanted = {f"refs/heads/{h.ref}": h.oid for h in archive.harnesses()}
        wanted |= {f"refs/heads/{p.ref}": p.oid for p in archive.pairs()}
        wanted |= {f"refs/heads/{c.ref}": c.oid for c in archive.checkpoints()}
        assert branches(tmp_path) == wanted | {f"refs/heads/{RUN}/evolution": tip.oid}
        assert not list((tmp_path / ".git").rglob("*.lock"))
        assert not list((tmp_path / ".git/objects/pack").glob("*.keep"))
    assert was_running == 8 and reached >= 4
    git(tmp_path, "gc", "--prune=now", "-q")
    assert clean(tmp_path)


def test_git_gc_beside_a_writer_loses_nothing(tmp_path: Path) -> None:
    begun(tmp_path)
    process = started(WRITER, tmp_path, 1)
    assert process.stdout and process.stdout.readline() == "ready\n"
    said: list[list[str]] = []
    housekept = 0
    try:  # at least one round is recorded under it, however slow the machine is
        while housekept < 6 or not any(what == "round" for what, *_ in said):
            git(tmp_path, "gc", "--prune=now", "-q")
            git(tmp_path, "pack-refs", "--all", "--prune", check=False)
            said.append(process.stdout.readline().split())
            housekept += 1
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not orphans(process.pid))
    rounds = [n for what, n in said + lines(process) if what == "round"]
    archive = Archive.open(tmp_path, RUN)
    archive.recover()
    assert rounds and len(archive.rounds()) >= len(rounds) + 1
    for harness in archive.harnesses():
        assert set(FILES) <= set(dict(harness.files))
    git(tmp_path, "gc", "--prune=now", "-q")
    assert clean(tmp_path)


def test_two_writers_without_a_lock_lose_nothing(tmp_path: Path) -> None:
    run = begun(tmp_path)
    code = (
        "import sys; sys.path.insert(0, 'tests'); from pathlib import Path\n"
        "from archive_case import *; a = Archive.open(Path(sys.argv[1]), RUN)\n"
        "[a.record_harness(offspring(sys.argv[2], i, sys.argv[3], f'# {i}')) for i in range(1, 41)]"
    )
    writers = [started("-c", code, tmp_path, run.harness, slot) for slot in ("a", "b")]
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        lines(writer)
    harnesses = Archive.open(tmp_path, RUN).harnesses()
    assert [h.label for h in harnesses[1:]] == [f"r{i:03d}-{s}" for i in range(1, 41) for s in "ab"]
    assert len([h for h in harnesses if h.duplicate_of]) == 40
    assert clean(tmp_path) or "dangling" in git(tmp_path, "fsck")


# --- the lock -----------------------------------------------------------------------------------


def holder(root: Path) -> subprocess.Popen[str]:
    process = started(
        "-c",
        "import sys, time; from pathlib import Path; from engine.archive import Archive\n"
        f"with Archive.open(Path(sys.argv[1]), {RUN!r}).lock():\n"
        "    print('held', flush=True); time.sleep(60)",
        root,
    )
    assert process.stdout and process.stdout.readline() == "held\n"
    return process


def test_a_second_engine_is_refused_and_a_dead_ones_lock_is_taken_over(tmp_path: Path) -> None:
    run = begun(tmp_path)
    process = holder(tmp_path)
    try:
        year = time.strftime("%Y-")
        with (
            pytest.raises(
                ArchiveLocked, match=f"process {process.pid} on {socket.gethostname()} since {year}"
            ),
            run.archive.lock(),
        ):
            pytest.fail("two engines at once")
        with Archive.open(tmp_path, "other").lock():  # another run isn't concerned
            pass
    finally:
        process.kill()
        lines(process)
        process.wait()
    with run.archive.lock():
        said = json.loads((run.archive.gitdir / "coevo" / f"{RUN}.lock").read_text())
        assert said["pid"] == os.getpid()
        with pytest.raises(ArchiveLocked), Archive.open(tmp_path, RUN).lock():
            pytest.fail("the same process twice")
        run.archive.recover()
    assert not (run.archive.gitdir / "coevo" / f"{RUN}.lock").exists()


def test_an_orphan_cant_keep_a_dead_engines_lock(tmp_path: Path) -> None:
    run = begun(tmp_path)
    process = started(
        "-c",
        "import os, sys, time; from pathlib import Path; from engine.archive import Archive\n"
        f"with Archive.open(Path(sys.argv[1]), {RUN!r}).lock():\n"
        "    child = os.fork()\n"
        "    if child: print(child, flush=True)\n"
        "    time.sleep(60)",
        tmp_path,
    )
    assert process.stdout
    child = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()
        with run.archive.lock():
            assert (run.archive.gitdir / "coevo" / f"{RUN}.lock").exists()
    finally:
        os.kill(child, signal.SIGKILL)
        lines(process)


# --- what the dead leave behind -----------------------------------------------------------------


def test_stale_locks_packs_and_worktrees_go(tmp_path: Path) -> None:
    run = begun(tmp_path)
    made = one_round(run)
    gitdir = run.archive.gitdir
    dead = subprocess.Popen(["true"])
    dead.wait()
    keep = gitdir / "objects/pack/pack-dead.keep"
    note = {"pid": dead.pid, "host": socket.gethostname(), "since": "", "started": "1"}
    keep.write_text(json.dumps(note))
    keep.with_suffix(".pack").write_bytes(b"PACK half")
    (gitdir / "coevo/incoming" / str(dead.pid)).mkdir()
    (gitdir / "coevo/incoming" / str(dead.pid) / "pack_git2_x").touch()
    work = gitdir / f"coevo/worktrees/{RUN}/r001-k1"
    git(tmp_path, "worktree", "add", "-q", "--detach", str(work), made["k1"])
    git(tmp_path, "worktree", "lock", str(work))
    mine = tmp_path.parent / f"{tmp_path.name}-mine"
    git(tmp_path, "worktree", "add", "-q", "--detach", str(mine), made["k2"])
    for ref in (f"{RUN}/harness/r001-k2", f"{RUN}/evolution"):
        git(tmp_path, "update-ref", "-d", f"refs/heads/{ref}")
    stale = [
        gitdir / f"refs/heads/{RUN}/harness/r001-k1.lock",
        gitdir / f"refs/coevo/{RUN}/state.lock",
        gitdir / "packed-refs.lock",
    ]
    for path in stale:
        path.touch()
        os.utime(path, (time.time() - 60,) * 2)
    done = run.archive.recover()
    assert done == (2, 3, 2, 1)
    assert not any(path.exists() for path in [*stale, keep, keep.with_suffix(".pack"), work])
    assert git(tmp_path, "worktree", "list").count("\n") == 1 and mine.exists()
    assert git(tmp_path, "rev-parse", f"{RUN}/evolution") == made["end"]
    assert git(tmp_path, "rev-parse", f"{RUN}/harness/r001-k2") == made["k2"]
    assert run.archive.recover() == (0, 0, 0, 0)
    assert clean(tmp_path)


def test_lock_files_of_live_processes_are_waited_for(tmp_path: Path) -> None:
    run = begun(tmp_path)
    path = run.archive.gitdir / f"refs/heads/{RUN}/harness/r000-seed.lock"
    process = started(
        "-c",
        "import sys, time, pathlib\n"
        "with open(sys.argv[1], 'w'): print('open', flush=True); time.sleep(1.5)\n"
        "pathlib.Path(sys.argv[1]).unlink()",
        path,
    )
    assert process.stdout and process.stdout.readline() == "open\n"
    os.utime(path, (time.time() - 60,) * 2)
    assert run.archive.recover().locks == 0
    assert not path.exists()
    assert process.wait() == 0  # it removed its own
    lines(process)


def test_branches_that_someone_moved_are_named_not_overwritten(tmp_path: Path) -> None:
    run = begun(tmp_path)
    git(tmp_path, "update-ref", f"refs/heads/{RUN}/harness/r000-seed", run.checkpoint)
    with pytest.raises(
        ArchiveError, match=rf"{RUN}/harness/r000-seed was moved to {run.checkpoint}"
    ):
        run.archive.recover()
    assert git(tmp_path, "rev-parse", f"{RUN}/harness/r000-seed") == run.checkpoint


# --- a full disk --------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system can't be mounted here (not root)")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_said_and_nothing_moves(small_disk: Path) -> None:
    run = begun(repository(small_disk))
    before = git(small_disk, "for-each-ref")
    filler = small_disk / "filler"
    noise = {f"{i}.bin": os.urandom(50_000) for i in range(10)}
    with filler.open("wb", buffering=0) as handle, pytest.raises(OSError, match="space"):
        while True:
            handle.write(bytes(4096))
    for draft in (
        HarnessDraft(1, "k1", noise, "Big", base=run.harness),
        offspring(run.harness, 1, "k2", "# small\n"),
    ):
        with pytest.raises(ArchiveError, match="the disk is full"):
            run.archive.record_harness(draft)
        assert git(small_disk, "for-each-ref") == before
        assert clean(small_disk)
    filler.unlink()
    assert run.archive.record_harness(offspring(run.harness, 1, "k2", "# small\n"))
    measured(run.archive, "r001-a", run.harness, run.checkpoint, 0.5, 1)
    run.archive.recover()
    assert clean(small_disk)
