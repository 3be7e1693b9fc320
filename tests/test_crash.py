"""Rounds killed at random instants: nothing is lost, nothing runs twice, nothing is left behind."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from conftest import ROUNDS
from runs import RunRepository, wait_for

from engine.editors import NOTES, REPORT
from engine.evaluation.journal import Journal
from engine.params import environment

KILLS = int(environment("COEVO_KILLS") or 5)
KILLS_A_RUN = 5
LATENCY_S = 0.03

pytestmark = pytest.mark.crash


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run, and how long its longest round took."""

    run: RunRepository
    round_s: float


@pytest.fixture(scope="module")
def start(fresh: RunRepository, tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    made = fresh.copied(tmp_path_factory.mktemp("start") / "base")
    made.slow(LATENCY_S)
    return made


@pytest.fixture(scope="module")
def reference(start: RunRepository, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    run, longest = start.copied(tmp_path_factory.mktemp("reference") / "base"), 0.0
    for _ in range(ROUNDS):
        began = time.monotonic()
        run.ok("dvc", "repro")
        longest = max(longest, time.monotonic() - began)
    return Reference(run, longest)


@pytest.mark.parametrize("part", range(-(-KILLS // KILLS_A_RUN)))
@pytest.mark.timeout(1200)
def test_killed_at_random_instants_a_run_ends_as_if_it_had_not_been(
    start: RunRepository, reference: Reference, tmp_path: Path, part: int
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"part {part}: seed {seed}")  # shown when the test fails
    luck, kills, tries = random.Random(seed), 0, 0
    while kills < min(KILLS_A_RUN, KILLS):
        tries += 1
        run, own = start.copied(tmp_path / str(tries)), 0
        while kills < KILLS_A_RUN and run.round() < ROUNDS:
            was_killed = killed(run, "dvc", "repro", after=luck.uniform(0.2, reference.round_s))
            own, kills = own + was_killed, kills + was_killed
            run.sound()
            check_branches(run)
        while run.round() < ROUNDS:
            run.ok("dvc", "repro")
        run.ok("dvc", "repro")
        check_alike(run, reference.run)
        check_completions(run, reference.run, own)
        check_nothing_is_left(run, reference.run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_a_stage_says_so_and_goes_on(
    one_round: RunRepository, tmp_path: Path, number: signal.Signals
) -> None:
    run = one_round.copied(tmp_path / "base")
    run.slow(LATENCY_S)
    for stage in ("open", "observe", "curate", "edit"):
        run.ok("coevo", "stage", stage)
    before, done, kept = run.refs(), len(run.completions()), len(journalled(run))
    process = run.started("coevo", "stage", "inherit")
    wait_for(lambda: len(run.completions()) > done + 8)
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; what had finished is kept" in said and "Traceback" not in said
    check_ended(run, family)
    assert {
        ref: oid
        for ref, oid in run.refs().items()
        if "checkpoint" not in ref and "state" not in ref
    } == {
        ref: oid for ref, oid in before.items() if "checkpoint" not in ref and "state" not in ref
    }, "no pair is archived half-measured"
    finished = journalled(run)
    assert len(finished) > kept, "finished rollouts are kept"
    run.ok("coevo", "stage", "inherit")
    assert set(finished) <= set(journalled(run))
    turns = journalled(run)
    assert len(run.completions()) - done <= sum(turns.values()) + 6 * max(turns.values())


def test_interrupted_dvc_goes_on(fresh: RunRepository, tmp_path: Path) -> None:
    run = fresh.copied(tmp_path / "base")
    run.slow(LATENCY_S)
    for number, completions in ((signal.SIGINT, 4), (signal.SIGTERM, 30)):
        process = run.started("dvc", "repro")
        wait_for(lambda wanted=completions: len(run.completions()) > wanted)
        family = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, number)
        process.communicate(timeout=60)
        assert process.returncode != 0
        check_ended(run, family)
        run.sound()
    run.ok("dvc", "repro")
    assert run.round() == 1


def test_files_that_dvc_left_half_written_are_no_obstacle(
    one_round: RunRepository, tmp_path: Path
) -> None:
    """Stopped, so that it can't mend them itself, and killed in the middle of writing them."""
    run = one_round.copied(tmp_path / "base")
    process = run.started("dvc", "repro")
    opened = run.folder / "round" / "open.json"
    wait_for(lambda: json.loads(opened.read_bytes())["round"] == 2)
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGSTOP)
    for name in (".dvc/tmp/rwlock", "dvc.lock"):
        (run.folder / name).write_text("")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    check_ended(run, family)
    run.ok("dvc", "status")


def killed(run: RunRepository, *command: str, after: float) -> bool:
    """Kill the command's whole process group after a while; False where it had ended well."""
    process = run.started(*command)
    try:
        _, said = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        family = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        check_ended(run, family)
        return True
    assert process.returncode == 0, said
    return False


def check_ended(run: RunRepository, family: list[psutil.Process]) -> None:
    """Nothing that was started below the run lives on, in whatever session."""
    gone = psutil.wait_procs(family, timeout=30)[1]
    assert not gone, [process.cmdline() for process in gone]
    wait_for(lambda: not at_work(run), 30)


def at_work(run: RunRepository) -> list[int]:
    """Processes that have to do with the run's folder."""
    found, mark = [], str(run.base)
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.cwd(), *process.environ().values()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(mark in word for word in words):
            found.append(process.pid)
    return found


def check_branches(run: RunRepository) -> None:
    """Each branch stands at a commit of its own kind; the evolution at a round."""
    form = "%(refname) %(contents:trailers:key=Coevo-Kind,valueonly)"
    for row in run.ok("git", "for-each-ref", f"--format={form}", "refs/heads/evo").splitlines():
        if row:
            ref, kind = row.split()
            assert kind == {"evolution": "round"}.get(ref.split("/")[3], ref.split("/")[3])


def check_alike(run: RunRepository, reference: RunRepository) -> None:
    """The archive holds what the uninterrupted one holds: names, designs, weights, measurements."""
    assert set(run.refs()) == set(reference.refs())
    for ref in sorted(reference.refs()):
        if not ref.startswith("refs/heads/evo/"):
            continue
        kind = ref.split("/")[3]
        assert facts(run, ref, kind) == facts(reference, ref, kind), ref


def facts(run: RunRepository, ref: str, kind: str) -> str:
    if kind == "harness":  # its code: notes and report name the base by its hash
        rows = run.ok("git", "ls-tree", "-r", ref).splitlines()
        return "\n".join(row for row in rows if not row.endswith((NOTES, REPORT)))
    keys = {
        "checkpoint": ("Weights", "Method", "Alpha"),
        "pair": ("Score", "TIMR", "Eval-Key"),
        "evolution": ("Promoted", "Gain"),
    }[kind]
    form = "%n".join(f"%(trailers:key=Coevo-{key},valueonly)" for key in keys)
    return run.ok("git", "log", "-1", f"--format={form}", ref)


def check_completions(run: RunRepository, reference: RunRepository, kills: int) -> None:
    """Each rollout ran once, but for those that a kill found in flight."""
    turns = journalled(run)
    assert turns == journalled(reference)
    here, there = Counter(run.completions()), Counter(reference.completions())
    assert not there - here
    allowance = kills * 6 * max(turns.values())
    assert (here - there).total() <= allowance
    assert here.total() <= sum(turns.values()) + allowance


def journalled(run: RunRepository) -> dict[str, int]:
    """Keys of the finished rollouts, and how many completions each took."""
    path = run.folder / ".coevo" / "journal" / "evo.sqlite"
    with closing(sqlite3.connect(path)) as db:
        keys = [key for (key,) in db.execute("SELECT key FROM rollout")]
    with Journal(path) as journal:
        return {key: trajectory.turns for key, trajectory in journal.get(keys).items()}


def check_nothing_is_left(run: RunRepository, reference: RunRepository) -> None:
    """No lock, no worktree, no scratch; the same files as without a kill, and DVC's all whole."""
    here, there = set(files(run.folder)), set(files(reference.folder))
    assert here == there
    assert not [
        name
        for name in here
        if name.endswith(".lock") and name != "dvc.lock" and not name.startswith(".dvc/tmp/")
    ]
    assert not [
        name
        for name in here
        if name.startswith(
            (".git/worktrees", ".coevo/merging", ".coevo/training", ".coevo/seeding")
        )
    ]
    for path in (run.folder / ".dvc" / "cache" / "files" / "md5").glob("??/*"):
        if re.fullmatch(r"[0-9a-f]{30}(\.dir)?", path.name):
            whole = hashlib.md5(path.read_bytes()).hexdigest()
            assert whole == (path.parent.name + path.name).removesuffix(".dir")


def files(folder: Path) -> list[str]:
    """Files by name, but for git's objects, DVC's cache, its scratch and SQLite's side files."""
    skipped = re.compile(
        r"\.git/(objects|index|COMMIT_EDITMSG|coevo/incoming|packed-refs)|\.dvc/(cache|tmp)"
        r"|\.coevo/journal"
    )
    names = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return [name for name in names if not skipped.match(name)]
