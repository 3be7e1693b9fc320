"""The seed harness: its summary, its conversation in the real sandbox, and the recipes on it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attribution_data import REAL, needs_both
from attribution_scripted import SolvingChat, steps_of

from engine.domains import Task
from engine.domains.attribution.domain import DOMAIN, LONG
from engine.domains.attribution.trace import Step, Trace, make_task
from engine.domains.attribution.world import TOOLS
from engine.editors.recipes import apply as recipe
from engine.editors.recipes.catalogue import RECIPES
from engine.editors.recipes.source import set_constant
from engine.workspace import read_workspace
from kernel.contract import ChatModel, Limits, Sampling
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, call, text
from kernel.scripted import Step as Move
from kernel.smoke import smoke
from kernel.trajectory import Trajectory

SEED = read_workspace(DOMAIN.seed_harness)


@pytest.fixture(scope="module")
def seed() -> ModuleType:
    path = DOMAIN.seed_harness / "harness.py"
    spec = importlib.util.spec_from_file_location("attribution_seed", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def log(*said: tuple[str, str], question: str = "Why did it fail?") -> Task:
    steps = [Step(number, agent, words) for number, (agent, words) in enumerate(said)]
    return make_task(Trace("t", "made", question, steps, said[1][0], 1))


TASK = log(("Lead", "Write it."), ("Coder", "def f"), ("Coder", "done"), ("Lead", "It fails."))


def test_neighbouring_steps_of_one_agent_share_a_line(seed) -> None:
    harness = seed.build_harness(TASK.public)
    assert harness.summary() == "0: Lead\n1-2: Coder\n3: Lead"
    assert harness.agents == ["Lead", "Coder"] and harness.question == "Why did it fail?"
    steps = [{"step": 4, "agent": "A"}, {"step": 6, "agent": "A"}]
    assert seed.build_harness({"steps": steps}).summary() == "4: A\n6: A"
    assert seed.build_harness({}).summary() == ""


def test_a_summary_says_of_every_step_whose_it_is(seed) -> None:
    for task in LONG.generate("s", 2, {"train": 10}).train:
        shown = steps_of(seed.build_harness(task.public).summary())
        assert shown == {each["step"]: each["agent"] for each in task.public["steps"]}


def test_long_texts_are_clipped_in_the_middle(seed) -> None:
    assert seed.clip("x" * 100, 100) == "x" * 100
    clipped = seed.clip("a" * 300 + "b" * 300, 90)
    assert clipped == "a" * 60 + " [...] " + "b" * 30


def test_every_example_is_a_whole_conversation(seed) -> None:
    for number, example in enumerate(json.loads(SEED["examples.json"])):
        task, look, seen, answer = seed.worked(number, example)
        given = json.loads(answer["tool_calls"][0]["function"]["arguments"])
        agent, said = example["log"][example["step"]]
        assert given == {"agent": agent, "step": example["step"]}
        assert f"[{example['step']}] {agent}: {said}" in seen["content"]
        assert said not in task["content"] and f"{example['step']}: {agent}" in task["content"]
        assert look["tool_calls"][0]["id"] == seen["tool_call_id"]


def play(task: Task, model: ChatModel, files: Any = SEED) -> Trajectory:
    async def course() -> Trajectory:
        async with WorkerPool("bwrap") as pool:
            limits = Limits(turns=DOMAIN.turn_limit)
            world = DOMAIN.world(task)
            return await pool.run(files, task.instruction, model, world, limits, Sampling(), 0)

    return asyncio.run(course())


def test_a_conversation_in_the_sandbox() -> None:
    moves: list[Move] = [
        call("inspect", {"step_ids": [0, 1]}),
        call("inspect", {"step_ids": [9]}),
        call("final_answer", {"agent": "Coder", "step": 1}),
    ]
    model = ScriptedModel(moves)
    trajectory = play(TASK, model)
    assert (trajectory.end, trajectory.turns, trajectory.violations) == ("answered", 3, 0)
    assert DOMAIN.verify(TASK, trajectory.answer).accepted
    first, second, third = (messages for messages, *_ in model.requests)
    assert len(first) == 6 and first[0]["role"] == "system"  # one example of four messages
    assert first[-1]["content"] == (
        "Question: Why did it fail?\nSteps:\n0: Lead\n1-2: Coder\n3: Lead"
    )
    assert not any("def f" in str(each) for each in first)
    assert second[-1]["content"] == "[0] Lead: Write it.\n[1] Coder: def f"
    assert third[-1]["content"].startswith("error: no such step: 9")


def test_a_rejected_answer_can_be_given_again() -> None:
    moves: list[Move] = [
        call("final_answer", {"agent": "Coder", "step": "1"}),
        call("final_answer", {"agent": " ", "step": 1}),
        call("final_answer", {"agent": "Lead", "step": 0}),
    ]
    trajectory = play(TASK, ScriptedModel(moves))
    assert (trajectory.turns, trajectory.violations) == (3, 1)
    assert trajectory.answer == {"agent": "Lead", "step": 0}


def test_it_ends_after_twenty_turns_and_where_nothing_is_called() -> None:
    endless = play(TASK, ScriptedModel([call("inspect", {"step_ids": [0]})] * 30))
    assert (endless.turns, endless.answer) == (20, None)
    assert play(TASK, ScriptedModel([text("I can't tell.")])).end == "no_answer"


def test_a_model_that_reads_is_right_through_the_harness() -> None:
    for task in DOMAIN.generate("s", 3, {"validation": 8}).validation:
        trajectory = play(task, SolvingChat(1.0))
        assert (trajectory.end, trajectory.turns) == ("answered", 2)
        assert DOMAIN.verify(task, trajectory.answer).accepted


def test_a_short_log_fits_a_context_of_2048_tokens() -> None:
    """Everything of a generated log that is ever sent, at three characters a token; 300 of the
    tokens are left for the tools' schemas and what a chat template adds."""
    for task in DOMAIN.generate("s", 4, {"test": 6}).test:
        ids = [each["step"] for each in task.public["steps"]]
        moves: list[Move] = [
            call("inspect", {"step_ids": ids[:6]}),
            call("inspect", {"step_ids": ids[5:]}),
            call("final_answer", {"agent": "A", "step": 0}),
        ]
        model = ScriptedModel(moves)
        play(task, model)
        last = model.requests[-1][0]
        assert len(json.dumps(last)) / 3 < 2048 - 300


@needs_both
def test_a_real_log_never_fills_the_first_prompt() -> None:
    made = DOMAIN.load(REAL, 0, {"train": 4, "test": 20})
    longest = max(made.test, key=lambda task: len(task.content))
    wordiest = max(made.train, key=lambda task: len(task.instruction))
    for task in (longest, wordiest):
        ids = [each["step"] for each in task.public["steps"]]
        moves: list[Move] = [
            call("inspect", {"step_ids": ids}),
            call("final_answer", {"agent": "A", "step": 0}),
        ]
        model = ScriptedModel(moves)
        assert play(task, model).end == "answered"
        seen = model.requests[-1][0][-1]["content"]
        assert len(seen) < 1700 and seen.startswith("[0] ")


def test_it_passes_smoke_with_the_domains_entry_points(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    entries = [f"--entry={name}({', '.join(args)})" for name, args in DOMAIN.entry_points.items()]
    done = subprocess.run(
        [sys.executable, "-m", "kernel.smoke", DOMAIN.seed_harness, "--tools", tools, *entries],
        capture_output=True,
        text=True,
        check=False,
        cwd=DOMAIN.seed_harness.parents[1],
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, ["SMOKE OK"])


def with_recipes(*names: str, **constants: int) -> dict[str, bytes]:
    """The seed with recipes, and constants of the last one set."""
    files = dict(SEED)
    for name in names:
        applied = recipe.apply(files, name, random.Random(0))
        assert applied is not None
        files = applied.files
    for key, value in constants.items():
        path = f"mechanisms/{names[-1]}.py"
        files[path] = set_constant(files[path], key, value)
    return files


def answer(agent: str, step: int) -> Move:
    return call("final_answer", {"agent": agent, "step": step})


def told(model: ScriptedModel, request: int) -> str:
    """The last message of a request."""
    return str(model.requests[request][0][-1]["content"])


def test_a_long_step_can_be_read_on() -> None:
    text = "".join(f"{n:05d}," for n in range(6000))
    task, seen, start = log(("A", "x"), ("B", text)), "", 0
    moves: list[Move] = []
    for start in range(0, 4500, 1500):
        moves.append(call("inspect", {"step_ids": [1], "start": start}))
    model = ScriptedModel([*moves, answer("B", 1)])
    assert play(task, model).violations == 0
    for number in (1, 2, 3):
        shown = told(model, number)
        assert shown.endswith(" [... read on with a later start]")
        seen += shown.removeprefix("[1] B: ")[:1500]
    assert seen == text[:4500]


def test_survey_log_shows_how_every_step_begins() -> None:
    task = log(*[("AB"[n % 2], f"word{n}\n[9] not a step " + "x" * 500) for n in range(7)])
    model = ScriptedModel([answer("B", 1)])
    assert play(task, model, with_recipes("survey_log", PART=2)).turns == 1
    prompt = told(model, 0)
    digest = prompt.partition("How each step begins (inspect shows more):\n")[2].splitlines()
    assert [line[:11] for line in digest] == [
        f"[{n}] {'AB'[n % 2]}: word{n}"[:11] for n in range(7)
    ]
    assert all(line.endswith("...") for line in digest)
    assert len("".join(digest)) < 2400 + 7 * 3
    assert play(log(("A", ""), ("B", "")), ScriptedModel([answer("B", 1)])).end == "answered"


def test_read_unseen_shows_earlier_steps_that_nobody_inspected() -> None:
    task = log(*[("AB"[n % 2], f"word{n}") for n in range(9)])
    moves: list[Move] = [call("inspect", {"step_ids": [5, 6]}), answer("A", 6), answer("B", 1)]
    model = ScriptedModel(moves)
    files = with_recipes("read_unseen", PART=3)
    trajectory = play(task, model, files)
    assert (trajectory.answer, trajectory.turns) == ({"agent": "B", "step": 1}, 3)
    shown = told(model, 2)
    assert "[2] A: word2\n[3] B: word3\n[4] A: word4" in shown
    assert "word1" not in shown and "word5" not in shown and "word7" not in shown
    whole: list[Move] = [call("inspect", {"step_ids": list(range(9))}), answer("B", 1)]
    assert play(task, ScriptedModel(whole), files).turns == 2, "nothing is unseen"


@pytest.mark.parametrize(
    ("named", "step", "words"),
    [
        ("Lead", 1, "step 1 is Coder's; Lead speaks at 0, 3"),
        ("Critic", 1, "step 1 is Coder's; nobody is called Critic"),
        ("Coder", 8, "there is no step 8; Coder speaks at 1, 2"),
    ],
)
def test_check_speaker_sends_back_what_does_not_fit(named: str, step: int, words: str) -> None:
    model = ScriptedModel([answer(named, step), answer("Coder", 1)])
    trajectory = play(TASK, model, with_recipes("check_speaker"))
    assert trajectory.answer == {"agent": "Coder", "step": 1}
    assert words in told(model, 1)


def test_check_speaker_lets_the_step_decide_in_the_end() -> None:
    files = with_recipes("check_speaker", RETRIES=0)
    assert play(TASK, ScriptedModel([answer("Lead", 2)]), files).answer == {
        "agent": "Coder",
        "step": 2,
    }
    good = play(TASK, ScriptedModel([answer("Coder (-> Lead)", 2)]), files)
    assert good.answer == {"agent": "Coder (-> Lead)", "step": 2}


def test_look_closer_shows_the_step_whole_between_its_neighbours() -> None:
    task = log(("A", "before" * 300), ("B", "y" * 2000 + "end"), ("A", "after"), ("B", "far"))
    model = ScriptedModel([answer("B", 1), answer("A", 0)])
    trajectory = play(task, model, with_recipes("look_closer"))
    assert (trajectory.answer, trajectory.turns) == ({"agent": "A", "step": 0}, 2)
    shown = told(model, 1)
    assert "yend\n" in shown and "[2] A: after" in shown and "far" not in shown
    assert shown.count("before") == 600 // 6 - 1, "a quarter of the characters, name included"


def test_they_work_together_in_any_order() -> None:
    names = ("survey_log", "read_unseen", "check_speaker", "look_closer", "accept_syntaxes")
    files = with_recipes(*names)
    assert files == with_recipes(*reversed(names))
    model = ScriptedModel([answer("Lead", 2), answer("Coder", 2), answer("Coder", 1)])
    trajectory = play(TASK, model, files)
    assert trajectory.end == "answered" and trajectory.turns > 2
    wild = text('{"name": "final_answer", "arguments": {"agent": ["x"], "step": [1]}}')
    assert play(TASK, ScriptedModel([wild]), files).end != "harness_error"


USABLE = {
    "survey_log",
    "read_unseen",
    "check_speaker",
    "look_closer",
    "choose_examples",
    "arrange_examples",
    "accept_syntaxes",
    "retry_malformed",
    "truncate_observations",
    "compact_history",
    "finish_in_time",
    "answer_only",
    "example_count",
}


def test_recipes_of_other_domains_do_not_apply_and_the_neutral_ones_run() -> None:
    found = {name for name, each in RECIPES.items() if recipe.applicable(SEED, each)}
    assert found == USABLE
    files = dict(SEED)
    for name in sorted(found):
        applied = recipe.apply(files, name, random.Random(0))
        assert applied is not None
        files = applied.files

    async def course() -> list[str]:
        async with WorkerPool("bwrap") as pool:
            return await smoke(
                pool,
                files,
                rules=DOMAIN.world(TASK).rules,
                world=lambda: DOMAIN.world(TASK),
                entry_points=DOMAIN.entry_points,
            )

    assert asyncio.run(course()) == []
