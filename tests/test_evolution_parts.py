"""The parts of an update session that need no sandbox: prompt, evidence, extraction, subject."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks import CheckResult
from engine.domains import Task, Verdict
from engine.domains.terminal.honesty import HONESTY
from engine.records import Rollout
from engine.self_evolution.extraction import (
    MOST_BYTES,
    MOST_FILES,
    Left,
    extract,
    pack,
    read_archive,
)
from engine.self_evolution.subject import subject
from engine.self_evolution.trials import lay_out
from engine.self_evolution.update import repair_task, update_task
from kernel.trajectory import Trajectory


def trajectory(answer: Any = None, end: str = "answered") -> Trajectory:
    events = (
        {"kind": "request", "turn": 0, "keep": 0, "messages": [{"role": "user", "content": "x"}]},
        {"kind": "exec", "turn": 1, "command": "ls", "stdout": "a\ud800b", "stderr": ""},
    )
    return Trajectory(events, end, answer, 1, 0, 10, 5, 0.5)


def rollout(name: str, family: str, score: float, answer: Any = None) -> Rollout:
    task = Task(f"id-{name}", f"Do {name}.", {}, {"gold": "LABEL"}, name, {"family": family})
    return Rollout(name, task, trajectory(answer), Verdict(score, score == 1, {}, ""))


# --- the update task --------------------------------------------------------------------------


def test_the_update_task_says_what_the_paper_s_says() -> None:
    text = update_task(441, 258_400, previous=True)
    for wanted in (
        "`/app/harness_workspace`", "`/app/harness_kernel`", "`/app/eval_trials`", "/logs/agent",
        "evolve_notes.md", "at most 441 lines", "258,400 input tokens", "SMOKE OK",
        "context_length_exceeded", "--budget 441", "never met", "previous_update",
    ):  # fmt: skip
        assert wanted in text, wanted
    assert text.endswith(HONESTY) and HONESTY
    assert "previous_update" not in update_task(441, 258_400, previous=False)


def test_only_the_budget_changes_from_one_iteration_to_the_next() -> None:
    texts = [update_task(budget, 1000, previous=True) for budget in (500, 100)]
    assert texts[0].replace("500", "100") == texts[1]


def test_a_repair_has_the_task_and_the_checks_words() -> None:
    text = repair_task(100, 1000, False, ["budget: 130 added lines, 100 are allowed", "smoke: x"])
    assert text.startswith(update_task(100, 1000, False).removesuffix("\n" + HONESTY))
    assert "- budget: 130 added lines, 100 are allowed\n- smoke: x\n" in text
    assert text.endswith(HONESTY)


# --- evidence ---------------------------------------------------------------------------------


def test_every_trial_is_laid_out_whole_and_labels_stay_behind(tmp_path: Path) -> None:
    answer = {"score": 0.5, "grader": "2 of 4 lines\n", "logs": {"notes/a.md": "kept"}}
    rollouts = [
        rollout("t1", "files", 0.5, answer),
        rollout("t2", "files", 1.0, "plain answer"),
        rollout("t2", "files", 0.0),
        rollout("t3", "repair", 0.0),
    ]
    folder = tmp_path / "trials"
    (folder / "stale").mkdir(parents=True)
    lay_out(folder, rollouts, {"id-t3"})
    assert sorted(path.name for path in folder.iterdir()) == [
        "files-t1", "files-t2", "files-t2-2", "repair-t3",
    ]  # fmt: skip
    first = folder / "files-t1"
    assert (first / "instruction.md").read_text() == "Do t1.\n"
    assert (first / "grader.txt").read_text() == "2 of 4 lines\n"
    assert (first / "agent" / "notes" / "a.md").read_text() == "kept"
    events = [json.loads(line) for line in (first / "trajectory.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events] == ["request", "exec"]
    result = json.loads((first / "result.json").read_text())
    assert (result["score"], result["end"], result["anchor"]) == (0.5, "answered", False)
    assert json.loads((folder / "repair-t3" / "result.json").read_text())["anchor"]
    assert json.loads((folder / "files-t2" / "answer.json").read_text()) == "plain answer"
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"LABEL" not in everything and b"id-t" not in everything


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", "x\0y", ""])
def test_names_that_evolved_code_chose_lead_nowhere(tmp_path: Path, name: str) -> None:
    answer = {"logs": {name: "bad", "good": "kept", "good/inside": "a file is no folder"}}
    lay_out(tmp_path / "trials", [rollout("t", "f", 0.0, answer)], ())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kept = tmp_path / "trials" / "f-t" / "agent" / "good"
    assert kept in files and not [path for path in files if "bad" in path.read_text("latin-1")]


# --- extraction -------------------------------------------------------------------------------


def test_the_workspace_comes_back_byte_for_byte() -> None:
    files = {"harness.py": b"x = 1\n", "data/b.bin": bytes(range(256))}
    left = extract(pack(files))
    again = Left.from_json(json.loads(json.dumps(left.to_json())))
    assert again == left == Left(files)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8})?\.py", fullmatch=True), st.binary(), max_size=6
    )
)
def test_packing_loses_nothing(files: dict[str, bytes]) -> None:
    assert read_archive(pack(files)) == files


def test_byte_code_and_git_are_left_behind() -> None:
    files = {"harness.py": b"", "__pycache__/h.pyc": b"x", "lib/.git/config": b"x"}
    assert extract(pack(files)).files == {"harness.py": b""}


def trap(name: str, **fields: Any) -> bytes:
    """A tar archive with one entry that no honest session leaves."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        for field, value in fields.items():
            setattr(entry, field, value)
        tar.addfile(entry)
    return made.getvalue()


@pytest.mark.parametrize(
    "archive",
    [
        trap("l", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        trap("l", type=tarfile.LNKTYPE, linkname="harness.py"),
        trap("pipe", type=tarfile.FIFOTYPE),
        trap("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        trap("../../out.py"),
        trap("/etc/out.py"),
        trap("a\nb.py"),
        trap("a\udcffb.py"),
        pack({"a": b"a" * MOST_BYTES, "b": b"b"}),
        pack({f"f{number}": b"" for number in range(MOST_FILES + 1)}),
        pack({}),
        b"no archive at all",
    ],
)
def test_a_workspace_that_is_a_trap_is_a_reason(archive: bytes) -> None:
    left = extract(archive)
    assert left.files is None and left.reason.startswith("path: ")
    json.dumps(left.to_json(), ensure_ascii=False).encode()


# --- the commit's subject ---------------------------------------------------------------------

OK, BAD = CheckResult((), 12), CheckResult(("smoke: it hangs",), 3)


@pytest.mark.parametrize(
    ("before", "after", "result", "said"),
    [
        ("", "# Round 1\n\n- Cut long outputs.\n", OK, "Cut long outputs."),
        ("- Old.\n", "# N\n- Old.\n* New one\n", OK, "New one"),
        ("- Old.\n", "- Old.\n", OK, "Edit harness.py (+12 lines)"),
        ("", "Try this\n", BAD, "Refused: Try this"),
        ("", "x" * 90, OK, "x" * 69 + "..."),
        ("", "a\x1b[31mb\n", OK, "a [31mb"),
    ],
)
def test_a_commit_is_called_by_what_is_new_in_its_notes(
    before: str, after: str, result: CheckResult, said: str
) -> None:
    base = {"harness.py": b"1", "evolve_notes.md": before.encode()}
    assert subject(base, {"harness.py": b"2", "evolve_notes.md": after.encode()}, result) == said
