"""The journal: what is in it survives a kill, and its keys name all that a rollout depends on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from engine.domains import Task
from engine.errors import ArchiveError
from engine.evaluation.journal import Journal
from engine.evaluation.keys import Setting, opaque_id, rollout_key, rollout_seed
from kernel.contract import Limits, Sampling
from kernel.trajectory import Trajectory

TASK = Task("t1", "Turn on the light.", {"home": {}}, {"gold": "x"}, "c1")
SETTING = Setting("validation", Sampling(), Limits(), "embedded", "smart_home", "k1")


def trajectory(answer: str) -> Trajectory:
    return Trajectory((), "answered", answer, 1, 0, 10, 5, 0.5)


def test_the_first_rollout_of_a_key_stays(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.sqlite") as journal:
        journal.put("a", trajectory("one"))
        journal.put("a", trajectory("two"))
        assert journal.get(["a", "b"]) == {"a": trajectory("one")}
        assert len(journal) == 1


def test_a_killed_writer_loses_nothing_that_it_had_finished(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    code = f"""
        from pathlib import Path
        from engine.evaluation.journal import Journal
        from kernel.trajectory import Trajectory
        journal = Journal(Path({str(path)!r}))
        for i in range(10**9):
            journal.put(f"k{{i}}", Trajectory((), "answered", str(i), 1, 0, 1, 1, 0.1))
            print(i, flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(60)]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with Journal(path) as journal:
        found = journal.get([f"k{i}" for i in told])
        assert [found[f"k{i}"].answer for i in told] == [str(i) for i in told]


def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    path.write_text("not a database, but long enough to be taken for one " * 40)
    with pytest.raises(ArchiveError, match=r"j\.sqlite: the journal can't be used"):
        Journal(path)


def test_a_key_names_everything_the_rollout_depends_on() -> None:
    base = (SETTING, "code", "weights", TASK, 0, 7)
    others = [
        (replace(SETTING, split="train"), *base[1:]),
        (replace(SETTING, sampling=Sampling(temperature=1.0)), *base[1:]),
        (replace(SETTING, limits=Limits(turns=3)), *base[1:]),
        (replace(SETTING, backend="vllm"), *base[1:]),
        (replace(SETTING, kernel="k2"), *base[1:]),
        (SETTING, "code2", *base[2:]),
        (SETTING, "code", "weights2", *base[3:]),
        (SETTING, "code", "weights", replace(TASK, private={"gold": "y"}), 0, 7),
        (SETTING, "code", "weights", replace(TASK, instruction="Turn it off."), 0, 7),
        (SETTING, "code", "weights", TASK, 1, 7),
        (SETTING, "code", "weights", TASK, 0, 8),
    ]
    keys = {rollout_key(*base), *(rollout_key(*other) for other in others)}
    assert len(keys) == len(others) + 1


def test_opaque_ids_and_seeds() -> None:
    assert opaque_id(b"a", TASK) != opaque_id(b"b", TASK)
    assert "t1" not in opaque_id(b"a", TASK)
    assert rollout_seed(0, TASK, 0) == rollout_seed(0, TASK, 0) != rollout_seed(0, TASK, 1)
