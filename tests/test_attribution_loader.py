"""Reading Who&When and TracerTraj: layouts, ids, filters, splits, and files that are wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attribution_data import (
    REAL,
    TRACER,
    WHO,
    algorithm,
    folder,
    hand,
    needs_both,
    needs_who,
    raw,
    tracer,
)

from engine.domains import Task
from engine.domains.attribution import loader
from engine.domains.attribution.domain import DOMAIN, LONG, Attribution
from engine.domains.attribution.filters import FILTERS
from engine.domains.attribution.trace import Trace, make_task, plain
from engine.errors import ConfigError, DataError
from engine.overlap import require_disjoint

ROOT = Path(__file__).parents[1]


def only(path: Path, **options: Any) -> Trace:
    (trace,) = loader.read(path, **options).traces
    return trace


def test_hand_crafted_agents_are_roles_without_their_suffix(tmp_path) -> None:
    trace = only(folder(tmp_path, hands={12: hand()}))
    assert (trace.id, trace.source) == ("Hand-Crafted/12", "Hand-Crafted")
    assert [step.agent for step in trace.steps] == [
        "human", "Orchestrator", "Orchestrator", "Surfer", "Surfer",
    ]  # fmt: skip
    assert (trace.mistake_agent, trace.mistake_step) == ("Surfer", 3)


def test_algorithm_generated_agents_are_names(tmp_path) -> None:
    trace = only(folder(tmp_path, algorithms={7: algorithm(mistake_step=2)}))
    assert trace.id == "Algorithm-Generated/7"
    assert [step.agent for step in trace.steps][:2] == ["Data_Expert", "Computer_terminal"]
    assert [step.number for step in trace.steps] == [0, 1, 2, 3] and trace.mistake_step == 2


def test_tracertraj_has_ids_and_step_numbers_of_its_own(tmp_path) -> None:
    history = [{"content": f"{n}", "name": "A b", "step": n} for n in (1, 2, 5)]
    row = tracer(history=history, mistake_step="5", mistake_agent="A b")
    trace = only(folder(tmp_path, tracers=[row]))
    assert (trace.id, trace.source) == ("Code_1_I", "TracerTraj-Code")
    assert [step.number for step in trace.steps] == [1, 2, 5] and trace.mistake_step == 5


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("Orchestrator (thought)", "Orchestrator"),
        ("Orchestrator (-> WebSurfer)", "Orchestrator"),
        ("Engineer(Alex)", "Engineer"),
        ("A (b) (c)", "A"),
        ("f(x) Expert", "f(x) Expert"),
        ("(thought)", "(thought)"),
        (" Blu-Ray_Expert ", "Blu-Ray_Expert"),
    ],
)
def test_a_suffix_in_parentheses_is_no_part_of_a_name(name, bare) -> None:
    assert plain(name) == bare


def test_the_file_names_of_injected_errors_are_evened_out(tmp_path) -> None:
    history = [{"content": "see x_attacked_solution.py", "name": "A", "role": "", "step": 0}]
    row = tracer(history=history, mistake_agent="A", mistake_step="0")
    assert only(folder(tmp_path, tracers=[row])).steps[0].text == "see x_solution.py"


def test_the_hubs_copy_has_another_key(tmp_path) -> None:
    row = hand()
    row["groundtruth"] = row.pop("ground_truth")
    assert only(folder(tmp_path, hands={1: row})).mistake_step == 3


@pytest.mark.parametrize("place", ["", "who_and_when", "Who&When"])
def test_where_the_folders_may_lie(tmp_path, place) -> None:
    folder(tmp_path / place, hands={1: hand()}, algorithms={1: algorithm()})
    assert [t.id for t in loader.read(tmp_path).traces] == [
        "Algorithm-Generated/1", "Hand-Crafted/1",
    ]  # fmt: skip
    assert only(tmp_path / place / "Hand-Crafted").id == "Hand-Crafted/1"


def test_both_data_sets_below_one_folder(tmp_path) -> None:
    folder(tmp_path / "who_and_when", hands={1: hand()})
    folder(tmp_path / "tracertraj_code", tracers=[tracer()])
    assert {t.id for t in loader.read(tmp_path).traces} == {"Hand-Crafted/1", "Code_1_I"}


def test_parquet_gives_the_same_logs_and_is_read_once(tmp_path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [tracer(number) for number in range(3)]
    as_lines = folder(tmp_path / "lines", tracers=rows)
    as_table = tmp_path / "table"
    as_table.mkdir()
    parquet.write_table(arrow.Table.from_pylist(rows), as_table / "tracertraj-code.parquet")
    assert loader.read(as_table).traces == loader.read(as_lines).traces
    (as_table / "tracertraj-code.jsonl").write_bytes(
        (as_lines / "tracertraj-code.jsonl").read_bytes()
    )
    assert len(loader.read(as_table).traces) == 3
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tracertraj.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match=r"tracertraj\.parquet: expected a Parquet file"):
        loader.read(broken)


def test_parquet_without_its_library_says_what_to_install(tmp_path) -> None:
    (tmp_path / "tracertraj.parquet").write_bytes(b"PAR1")
    asks = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path\n"
        "from engine.domains.attribution import loader\n"
        "from engine.errors import DataError\n"
        "try: loader.read(Path(sys.argv[1]))\n"
        "except DataError as error: print(error)\n"
    )
    command = [sys.executable, "-c", asks, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "tracertraj.parquet: Parquet needs pyarrow: install it" in done.stdout


BAD = [
    (
        {"mistake_step": "8"},
        "mistake_step: expected one of the 5 steps of history (0 to 4), got '8'",
    ),
    ({"mistake_step": "-1"}, "mistake_step: expected one of the 5 steps"),
    ({"mistake_step": "three"}, "mistake_step: expected a whole number, got 'three'"),
    ({"mistake_step": None}, "mistake_step: expected a whole number, got None"),
    ({"mistake_step": True}, "mistake_step: expected a whole number, got True"),
    ({"mistake_agent": ""}, "mistake_agent: expected text, got ''"),
    ({"mistake_agent": 3}, "mistake_agent: expected text, got 3"),
    ({"question": None}, "question: expected text, got None"),
    ({"history": []}, "history: expected at least one step, got []"),
    ({"history": "x"}, "history: expected a list, got 'x'"),
    ({"history": ["x"]}, "history[0]: expected an object, got 'x'"),
    ({"history": [{"role": "a"}]}, "history[0].content: expected text, got None"),
    ({"history": [{"content": "a"}]}, "history[0].role: expected text, got None"),
    ({"history": [{"content": "a", "name": 1}]}, "history[0].name: expected text, got 1"),
    (
        {"history": [{"content": "a", "name": "A", "step": "x"}]},
        "history[0].step: expected a whole number, got 'x'",
    ),
    (
        {"history": [{"content": "a", "name": "A", "step": 3}] * 2},
        "history: expected a step number of its own for every step, got [3, 3]",
    ),
]


@pytest.mark.parametrize(("fields", "words"), BAD)
def test_a_malformed_row_is_named(tmp_path, fields, words) -> None:
    data = folder(tmp_path, hands={1: hand(), 2: hand(2, **fields)})
    with pytest.raises(DataError) as caught:
        loader.read(data)
    assert str(caught.value).startswith(f"{data / 'Hand-Crafted' / '2.json'}: {words}")
    found = loader.read(data, skip_bad_rows=True)
    assert [trace.id for trace in found.traces] == ["Hand-Crafted/1"]
    assert found.skipped == [str(caught.value)] and found.absent == {"Hand-Crafted/2"}


def test_a_row_without_a_reference_key_is_named(tmp_path) -> None:
    row = hand()
    del row["ground_truth"]
    with pytest.raises(DataError, match=r"1\.json: ground_truth: expected this key"):
        loader.read(folder(tmp_path, hands={1: row}))


def test_lines_and_files_that_are_no_json_are_named(tmp_path) -> None:
    data = folder(tmp_path, hands={1: hand()}, tracers=[tracer(1), tracer(2)])
    table = data / "tracertraj-code.jsonl"
    table.write_text(table.read_text() + "{broken\n" + json.dumps(tracer(1)) + "\n")
    (data / "Hand-Crafted" / "2.json").write_text('{"question":\n oops}')
    with pytest.raises(DataError, match=r"2\.json:2: file: expected JSON"):
        loader.read(data)
    found = loader.read(data, skip_bad_rows=True)
    assert len(found.traces) == 3
    assert [line.partition(": ")[0].rpartition("/")[2] for line in found.skipped] == [
        "2.json:2", "tracertraj-code.jsonl:3", "tracertraj-code.jsonl:4",
    ]  # fmt: skip
    assert "question_ID: expected an id not used before, got 'Code_1_I'" in found.skipped[2]


def test_a_folder_with_nothing_in_it_says_what_to_get(tmp_path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(DataError, match="Agents_Failure_Attribution"):
            loader.read(place)


def test_filters_drop_and_count(tmp_path) -> None:
    gap = [{"content": "x", "name": "A", "step": n} for n in (0, 2)]
    rows = [
        tracer(1),
        tracer(2, mistake_step="1,2"),
        tracer(3, mistake_step=["1", "3"], mistake_agent=["A", "B"]),
        tracer(4, history=gap, mistake_step="2", mistake_agent="A"),
        tracer(5, mistake_agent="Engineer"),
        tracer(6, mistake_agent="Product Manager (Alice)", mistake_step=["1"]),
    ]
    data = folder(tmp_path, tracers=rows)
    found = loader.read(data, filters=("one_error", "dense_steps", "consistent_agent"))
    assert [trace.id for trace in found.traces] == ["Code_1_I", "Code_6_I"]
    assert found.dropped == {"one_error": 2, "dense_steps": 1, "consistent_agent": 1}
    assert found.left_out[-1] == (
        "Code_5_I: left out by consistent_agent: step 1 is Product Manager's, responsible is "
        "Engineer"
    )
    some = loader.read(data, filters=("one_error",))
    assert (len(some.traces), some.dropped) == (4, {"one_error": 2})
    with pytest.raises(DataError, match="mistake_step: expected a whole number"):
        loader.read(data)
    with pytest.raises(ConfigError, match="no filter is called 'some'; known: one_error"):
        loader.read(data, filters=("some",))


def test_one_based_steps_are_dense_too(tmp_path) -> None:
    history = [{"content": "x", "name": "A", "step": n} for n in (1, 2, 3)]
    row = tracer(history=history, mistake_step="3", mistake_agent="A")
    assert only(folder(tmp_path, tracers=[row]), filters=("dense_steps",)).mistake_step == 3


def test_tests_come_from_who_and_when_and_the_rest_from_tracertraj(tmp_path) -> None:
    data = folder(
        tmp_path,
        hands={n: hand(n) for n in range(4)},
        algorithms={n: algorithm(n) for n in range(4)},
        tracers=[tracer(n) for n in range(9)] + [tracer(9, mistake_agent="Engineer")],
    )
    made = DOMAIN.load(data, 3, {"train": 5, "validation": 4, "test": 6})
    assert {task.strata["source"] for task in made.test} == {"Hand-Crafted", "Algorithm-Generated"}
    learnt = [*made.train, *made.validation]
    assert {task.id for task in learnt} == {f"Code_{n}_I" for n in range(9)}
    assert [line.partition(":")[0] for line in made.left_out] == ["Code_9_I"]
    assert not made.skipped, "it is a sound row"
    assert DOMAIN.load(data, 3, {"train": 5, "validation": 4, "test": 6}) == made
    assert DOMAIN.load(data, 4, {"train": 5, "validation": 4, "test": 6}).train != made.train
    everything = Attribution(filters=()).load(data, 3, {"train": 10})
    assert len(everything.train) == 10 and not everything.left_out
    with pytest.raises(DataError, match="validation: 10 tasks asked, 9 there are"):
        DOMAIN.load(data, 3, {"validation": 10})


def test_one_question_never_stands_in_two_splits(tmp_path) -> None:
    """Where only Who&When is there it is divided, and a question in both folders moves as one."""
    data = folder(
        tmp_path,
        hands={n: hand(n, question=f"Question  no. {n}?") for n in range(10)},
        algorithms={n: algorithm(n, question=f"question no {n}") for n in range(10)},
    )
    for seed in range(5):
        made = DOMAIN.load(data, seed, {"train": 6, "validation": 4, "test": 6})
        parts = {"train": made.train, "validation": made.validation, "test": made.test}
        require_disjoint(parts)
        assert [len(part) for part in parts.values()] == [6, 4, 6]


def as_rows(task: Task) -> list[dict[str, Any]]:
    """A task as a row in each of the three forms."""
    said = [
        (each["step"], each["agent"], task.private["texts"][str(each["step"])])
        for each in task.public["steps"]
    ]
    label = {
        "question": task.instruction,
        "question_ID": task.id,
        "ground_truth": "",
        "mistake_agent": task.private["mistake_agent"],
        "mistake_step": str(task.private["mistake_step"]),
    }
    roles = [{"role": f"{agent} (-> x)", "content": text} for _, agent, text in said]
    names = [{"name": agent, "role": "user", "content": text} for _, agent, text in said]
    steps = [{**each, "step": step} for each, (step, *_) in zip(names, said, strict=True)]
    return [{**label, "history": each} for each in (roles, names, steps)]


def test_generated_logs_written_in_the_published_forms_are_read_back(tmp_path) -> None:
    made = LONG.generate("s", 5, {"train": 8}).train
    written = [as_rows(task) for task in made]
    hands, algorithms, tracers = zip(*written, strict=True)
    data = folder(tmp_path, dict(enumerate(hands)), dict(enumerate(algorithms)), tracers)
    read = {trace.id: make_task(trace) for trace in loader.read(data, filters=FILTERS).traces}
    assert len(read) == 24
    for number, task in enumerate(made):
        for key in (f"Hand-Crafted/{number}", f"Algorithm-Generated/{number}", task.id):
            found = read[key]
            assert (found.public, found.private, found.content, found.group) == (
                task.public, task.private, task.content, task.group,
            )  # fmt: skip


@needs_both
def test_the_real_files_make_the_small_presets_splits() -> None:
    made = DOMAIN.load(REAL, 0, {"train": 48, "validation": 12, "test": 24})
    require_disjoint({"train": made.train, "validation": made.validation, "test": made.test})
    assert {task.strata["source"] for task in made.train} == {"TracerTraj-Code"}
    assert {task.strata["source"] for task in made.test} == {"Hand-Crafted", "Algorithm-Generated"}
    for task in made.test:
        row = raw(task.strata["source"])[task.id]
        assert task.private["mistake_agent"] == row["mistake_agent"]
    told = [text for task in made.train for text in task.private["texts"].values()]
    published = [
        each["content"] for row in raw("TracerTraj-Code").values() for each in row["history"]
    ]
    assert any("_attacked_solution" in text for text in published)
    assert not any("_attacked_solution" in text for text in told)


@needs_who
def test_every_real_log_is_read() -> None:
    found = {trace.id: trace for trace in loader.read(WHO).traces}
    assert found.keys() == raw("Hand-Crafted").keys() | raw("Algorithm-Generated").keys()
    for key, row in {**raw("Hand-Crafted"), **raw("Algorithm-Generated")}.items():
        trace = found[key]
        assert [step.text for step in trace.steps] == [each["content"] for each in row["history"]]
        assert trace.mistake_step == int(row["mistake_step"])
    spoken = {step.agent for trace in found.values() for step in trace.steps}
    assert not any("(" in agent for agent in spoken)
    assert {"Orchestrator", "WebSurfer", "Computer_terminal"} <= spoken


@needs_both
def test_real_tracertraj_alone_is_divided() -> None:
    made = DOMAIN.load(TRACER, 1, {"train": 30, "validation": 10, "test": 20})
    ids = {task.id for part in (made.train, made.validation, made.test) for task in part}
    assert len(ids) == 60 and ids <= raw("TracerTraj-Code").keys()
