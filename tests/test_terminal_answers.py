"""Documents, timetables and broken stores: what a careless answer is worth, and that neither the
task nor its files give the answer away."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from terminal_play import made, played

from engine.domains.terminal.problem import DIFFICULTIES, Problem

SEEDS = range(8)
ROOT = Path(__file__).parents[1]


def answers(problem: Problem, values: object) -> str:
    return f"cat > answers.json <<'END'\n{json.dumps(values)}\nEND"


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("family", ["documents", "schedule", "forensics"])
def test_no_file_holds_the_answer(family: str, difficulty: int) -> None:
    for seed in SEEDS:
        problem = made(family, difficulty, seed)
        assert all("grade" not in name and "solution" not in name for name in problem.files)
        said = problem.instruction.encode() + b"".join(problem.files.values())
        if family == "schedule":
            assert not re.search(rb"S\d\d,\w+,\d+", problem.instruction.encode())
            rooms = {f",{room},".encode() for room in problem.facts["rooms"]}
            assert not any(room in said for room in rooms)
        elif family == "forensics":
            assert not any(str(v).encode() in said for v in problem.facts["state"].values())
        else:
            numbers = re.findall(rb"-?\d+\.\d\b", problem.instruction.encode())
            assert numbers == []


def test_answers_from_uncorrected_reports_are_wrong() -> None:
    for difficulty in (1, 3):
        problem = made("documents", difficulty)
        score, text = played(problem, problem.solution.replace("notices/", "nowhere/"))
        assert score < 1, text


def test_each_right_answer_counts_and_only_numbers_do() -> None:
    problem = made("documents", 3)
    right = problem.facts["answers"]
    assert len(right) == 4
    near = {number: value + 0.05 for number, value in right.items()}
    assert played(problem, answers(problem, near))[0] == 1.0
    one_wrong = {**right, "2": right["2"] + 0.2}
    assert played(problem, answers(problem, one_wrong))[0] == 0.75
    odd = {"1": str(right["1"]), "2": None, "3": right["3"], "4": True}
    assert played(problem, answers(problem, odd))[0] == 0.25
    for broken in ([1, 2], "text"):
        assert played(problem, answers(problem, broken))[0] == 0.0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), difficulty=st.sampled_from(DIFFICULTIES))
def test_corrections_touch_what_the_questions_need(seed: int, difficulty: int) -> None:
    problem = made("documents", difficulty, seed)
    assert len(problem.facts["answers"]) == 1 + difficulty
    notices = [text for name, text in problem.files.items() if name.startswith("notices/")]
    assert len(notices) >= 2 + min(difficulty, 1)
    withdrawn = sum(text.startswith(b"Withdrawal") for text in notices)
    assert withdrawn == (difficulty >= 4)


def placed(problem: Problem) -> list[list[str]]:
    """The timetable that the solution writes, without its header."""
    body = problem.solution.split("CSV'\n", 1)[1].rsplit("\nCSV", 1)[0]
    return list(csv.reader(io.StringIO(body)))[1:]


def timetable(rows: list[list[str]]) -> str:
    lines = "\n".join(",".join(row) for row in rows)
    return f"cat > timetable.csv <<'END'\nsession,room,start\n{lines}\nEND"


def test_timetables_are_held_to_every_constraint() -> None:
    problem = made("schedule", 3)
    rows = placed(problem)
    largest = max(problem.facts["rooms"], key=lambda room: problem.facts["rooms"][room])
    everyone_at_once = [[name, largest, "0"] for name, _, _ in rows]
    assert played(problem, timetable(everyone_at_once))[0] < 0.2
    score, text = played(problem, timetable(rows[1:]))
    assert 0 < score < 1 and f"{rows[0][0]} isn't there" in text
    assert played(problem, timetable([*rows, rows[0]]))[0] == 0.0
    late = [[rows[0][0], rows[0][1], str(problem.facts["hours"])], *rows[1:]]
    score, text = played(problem, timetable(late))
    assert 0 < score < 1 and f"{rows[0][0]} is outside the day" in text
    beyond = [[rows[0][0], "nowhere", rows[0][2]], *rows[1:]]
    assert "no room that is large enough" in played(problem, timetable(beyond))[1]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), difficulty=st.sampled_from(DIFFICULTIES))
def test_the_drawn_timetable_fits_by_an_independent_count(seed: int, difficulty: int) -> None:
    problem = made("schedule", difficulty, seed)
    facts, rows = problem.facts, placed(problem)
    assert {name for name, _, _ in rows} == set(facts["sessions"])
    taken: set[tuple[str, int]] = set()
    for name, room, start in rows:
        session = facts["sessions"][name]
        hours = range(int(start), int(start) + session["hours"])
        assert session["people"] <= facts["rooms"][room] and hours.stop <= facts["hours"]
        for hour in hours:
            for busy in ((room, hour), (session["speaker"], hour)):
                assert busy not in taken
                taken.add(busy)
        assert not set(hours) & set(session["not_at"])


@pytest.mark.parametrize(
    ("right", "careless"),
    [
        ("if len(check) == 4 and zlib.crc32", "if len(check) == 4 or zlib.crc32"),
        ("    else:\n        pending.pop(unit, None)\n", ""),
        ("in sorted(records)", "in list(records)"),
    ],
    ids=["damaged records", "aborted transactions", "order of fragments"],
)
def test_a_careless_reading_of_a_log_is_wrong(right: str, careless: str) -> None:
    scores = []
    for seed in range(3):
        problem = made("forensics", 2, seed)
        assert right in problem.solution
        script = problem.solution.replace(right, careless)
        if "pending.pop(unit, None)" in right:
            script = script.replace("elif kind == 4:", "else:")
        scores.append(played(problem, script)[0])
    assert min(scores) < 1, scores


def test_a_state_with_keys_too_many_is_not_right() -> None:
    problem = made("forensics", 1)
    state = problem.facts["state"]
    script = "cat > state.json <<'END'\n{}\nEND"
    given = json.dumps({**state, "one.more": 1})
    score, text = played(problem, script.replace("{}", given))
    assert score == pytest.approx(len(state) / (len(state) + 1)), text
    as_text = json.dumps({key: str(value) for key, value in state.items()})
    assert played(problem, script.replace("{}", as_text))[0] == 0.0


def test_problems_are_the_same_in_every_process() -> None:
    code = (
        "import random; from engine.domains.terminal.families import FAMILIES\n"
        "print([f.make(random.Random(7), 4).digest() for f in FAMILIES.values()])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
