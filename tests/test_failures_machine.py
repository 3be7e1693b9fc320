"""Foreign git states, full and read-only disks, a second engine: refused in one line, nothing
lost, and mended by what the line says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import RunRepository, wait_for

Copy = Callable[[RunRepository], RunRepository]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return lambda run: run.copied(tmp_path / "base")


# --- git --------------------------------------------------------------------------------------


def test_a_branch_named_as_the_run_is_in_the_way(fresh: RunRepository, copy: Copy) -> None:
    run = copy(fresh)
    run.ok("git", "branch", "evo")
    said = run.fails("coevo", "stage", "open", code=4)
    assert "git branch -m evo" in said
    run.ok("git", "branch", "-m", "evo", "evo-old")
    run.ok("coevo", "stage", "open")


def test_no_repository_a_bare_one_and_a_shallow_one(one_round: RunRepository, copy: Copy) -> None:
    run = copy(one_round)
    bare = run.base / "shallow"
    url = f"file://{run.folder}"
    run.ok("git", "clone", "-q", "--depth", "1", url, str(bare), cwd=run.base)
    shutil.copy(run.folder / "params.yaml", bare)
    assert "git fetch --unshallow" in run.fails("coevo", "stage", "open", code=4, cwd=bare)
    run.ok("git", "config", "core.bare", "true")
    assert "bare repository" in run.fails("coevo", "status", code=4)
    run.ok("git", "config", "core.bare", "false")
    run.ok("coevo", "status")
    (run.folder / ".git").rename(run.base / "git")
    said = run.fails("coevo", "stage", "open", code=4)
    assert "not in a git repository" in said and "coevo init" in said
    (run.base / "git").rename(run.folder / ".git")
    run.ok("coevo", "stage", "open")


def test_a_stranger_at_the_evolution_branch(one_round: RunRepository, copy: Copy) -> None:
    run = copy(one_round)
    tip = run.refs()["refs/heads/evo/evolution"]
    run.ok("git", "update-ref", "refs/heads/evo/evolution", "main")
    before = run.refs()
    assert "evo/evolution" in run.fails("coevo", "stage", "open", code=4)
    assert run.refs() == before
    run.ok("git", "update-ref", "refs/heads/evo/evolution", tip)
    run.ok("coevo", "stage", "open")


def test_a_merge_in_progress_and_a_dirty_tree_do_not_matter(
    one_round: RunRepository, copy: Copy
) -> None:
    run = copy(one_round)
    who = ("-c", "user.name=A", "-c", "user.email=a@b")
    (run.folder / ".gitignore").write_text("one\n")
    run.ok("git", *who, "commit", "-qam", "one")
    run.ok("git", "checkout", "-q", "-b", "other", "main~1")
    (run.folder / ".gitignore").write_text("two\n")
    run.ok("git", *who, "commit", "-qam", "two")
    assert run.run("git", *who, "merge", "main").returncode == 1, "a conflict"
    (run.folder / "stray.txt").write_text("mine")
    before = run.ok("git", "status", "--porcelain", ".gitignore", "stray.txt")
    run.ok("dvc", "repro")
    assert run.round() == 2
    assert run.ok("git", "status", "--porcelain", ".gitignore", "stray.txt") == before
    run.sound()


# --- the disk ---------------------------------------------------------------------------------


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[None]:
    """A file system at ``place``; skips the test where none can be mounted."""
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, place], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(folder: Path, left: int) -> Path:
    """A file that takes all of the disk but ``left`` bytes."""
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    filler = folder / "filler"
    with filler.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, max(free - left, 1))
    return filler


def test_a_full_disk_stops_each_stage_and_it_goes_on_when_there_is_room(
    one_round: RunRepository, tmp_path: Path
) -> None:
    place = tmp_path / "small"
    with mounted(place, "-t", "tmpfs", "-o", "size=48m", "tmpfs"):
        run = one_round.copied(place / "base")
        refused = 0
        for stage in ("open", "observe", "curate", "edit", "inherit", "adapt", "promote"):
            for left in (0, 64 << 10):
                filler = fill(place, left)
                before = run.refs()
                done = run.run("coevo", "stage", stage)
                if done.returncode:
                    refused += 1
                    errors = [x for x in done.stderr.splitlines() if x.startswith("error: ")]
                    assert len(errors) == 1 and "free some" in errors[0], done.stderr
                    assert "Traceback" not in done.stderr
                    assert (
                        run.refs().items()
                        >= {
                            ref: oid
                            for ref, oid in before.items()
                            if ref.startswith("refs/heads/evo")
                        }.items()
                    )
                filler.unlink()
            run.ok("coevo", "stage", stage)
        assert refused >= 7, "no room at all stops every stage"
        shutil.rmtree(run.folder / "checkpoints")
        filler = fill(place, 0)
        assert "free some" in run.fails("coevo", "use", "evo/evolution", str(tmp_path / "agent"))
        filler.unlink()
        run.ok("coevo", "use", "evo/evolution", str(tmp_path / "agent"))
        assert run.round() == 2
        run.sound()


def test_a_full_disk_under_dvc(one_round: RunRepository, tmp_path: Path) -> None:
    """DVC's own files are cut off, too: `coevo run` and `coevo doctor` see to them."""
    place = tmp_path / "small"
    with mounted(place, "-t", "tmpfs", "-o", "size=48m", "tmpfs"):
        run = one_round.copied(place / "base")
        filler = fill(place, 0)
        assert run.run("dvc", "repro").returncode != 0
        filler.unlink()
        for name in (".dvc/tmp/rwlock", "dvc.lock"):
            (run.folder / name).write_text("")
        found = run.run("coevo", "doctor")
        assert found.returncode == 1 and "rwlock" in found.stdout
        run.ok("coevo", "run")
        assert run.round() == 2
        run.ok("coevo", "doctor")
        run.sound()


def test_a_read_only_folder_is_named(one_round: RunRepository, tmp_path: Path) -> None:
    run = one_round.copied(tmp_path / "base")
    with mounted(run.folder, "--bind", str(run.folder)):
        subprocess.run(["mount", "-o", "remount,ro,bind", run.folder], check=True)
        assert str(run.folder) in run.fails("coevo", "stage", "open")
        run.ok("coevo", "status")
        run.ok("coevo", "log", "--json")
    run.ok("coevo", "stage", "open")


# --- two engines ------------------------------------------------------------------------------


@contextmanager
def at_work(run: RunRepository, *command: str) -> Iterator[subprocess.Popen[str]]:
    """The command in the middle of a stage's rollouts, which take their time."""
    run.slow(2.0)
    done = len(run.completions())
    process = run.started(*command)
    try:
        wait_for(lambda: len(run.completions()) > done)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_second_engine_is_refused_naming_the_first(one_round: RunRepository, copy: Copy) -> None:
    run = copy(one_round)
    second = run.base / "second"
    run.ok("git", "worktree", "add", "-q", str(second), "main~0", "--detach")
    shutil.copy(run.folder / "params.yaml", second)
    with at_work(run, "dvc", "repro"):
        said = run.fails("coevo", "stage", "open", code=5)
        assert "held by process" in said
        pid = int(said.split("held by process ")[1].split()[0])
        assert b"coevo" in Path(f"/proc/{pid}/cmdline").read_bytes()
        said = run.fails("coevo", "stage", "open", code=5, cwd=second)
        assert f"held by process {pid}" in said, "worktrees share the archive"
        other = run.run("dvc", "repro")
        assert other.returncode != 0 and "PID" in other.stderr
        run.ok("coevo", "log", "--json")
    run.ok("coevo", "stage", "open", cwd=second)
    run.ok("git", "worktree", "remove", "--force", str(second))
