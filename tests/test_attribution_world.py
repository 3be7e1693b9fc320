"""The world: nothing is known before it is inspected, and no observation is too long."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Any

import pytest
from attribution_data import REAL, needs_both
from hypothesis import given
from hypothesis import strategies as st

from engine.domains import Task
from engine.domains.attribution.domain import DOMAIN
from engine.domains.attribution.trace import Step, Trace, make_task
from engine.domains.attribution.world import SHOWN_CHARS, AttributionWorld, fitted


def task(*texts: str) -> Task:
    steps = [Step(number, f"Agent{number % 2}", text) for number, text in enumerate(texts)]
    return make_task(Trace("t", "x", "Why?", steps, "Agent1", 1))


def inspected(task: Task, ids: Any) -> str:
    return asyncio.run(DOMAIN.world(task).call("inspect", {"step_ids": ids}))


def test_the_summary_has_no_word_of_what_was_said_and_no_label() -> None:
    world = DOMAIN.world(task("alpha secret", "beta secret"))
    assert world.public == {
        "question": "Why?",
        "agents": ["Agent0", "Agent1"],
        "steps": [{"step": 0, "agent": "Agent0"}, {"step": 1, "agent": "Agent1"}],
    }
    assert "mistake" not in json.dumps(vars(world), default=lambda each: vars(each))


def test_generated_and_practice_worlds_hold_no_label() -> None:
    for each in DOMAIN.generate("s", 1, {"train": 20}).train:
        shown = json.dumps(DOMAIN.world(each).public)
        assert not any(text in shown for text in each.private["texts"].values())
        practice = DOMAIN.practice(each, "Another?")
        assert set(practice.private) == {"texts"} and practice.public["question"] == "Another?"
        assert Task(**json.loads(json.dumps(asdict(each)))) == each


@needs_both
def test_real_summaries_tell_nothing_either() -> None:
    made = DOMAIN.load(REAL, 0, {"train": 30, "test": 50})
    for each in (*made.train, *made.test):
        shown = {"steps": each.public["steps"], "agents": each.public["agents"]}
        said = json.dumps(shown, ensure_ascii=False)
        long = [text for text in each.private["texts"].values() if len(text) > 40]
        assert long and not any(text in said for text in long)
        assert set(each.public) == {"question", "agents", "steps"}


def test_inspect_shows_steps_in_the_order_asked() -> None:
    each = task("alpha", "beta\nsecond line", "")
    assert inspected(each, [1, 0, 1]) == "[1] Agent1: beta\nsecond line\n[0] Agent0: alpha"
    assert inspected(each, [2]) == "[2] Agent0: "
    assert inspected(each, [0, 7]) == "[0] Agent0: alpha\n[7] no such step"


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([], "must be a list"),
        ("1", "must be a list"),
        (["1"], "must be a list"),
        ([True], "must be a list"),
        (None, "must be a list"),
        ([9], "no such step: 9; there are 0 to 1"),
        ([-1, 10**30], "no such step: -1, 1000"),
        (list(range(201)), "at most 200"),
    ],
)
def test_a_bad_inspection_says_so(ids, words) -> None:
    seen = inspected(task("a", "b"), ids)
    assert seen.startswith("error: ") and words in seen and len(seen) < 200


def test_observations_are_bounded_and_fewer_steps_show_more() -> None:
    each = task("x" * 50_000 + "end", "short", "y" * 50_000)
    whole = inspected(each, [0, 1, 2])
    assert len(whole) < SHOWN_CHARS + 300 and "[1] Agent1: short\n" in whole
    assert "characters left out" in whole and "xend\n" in whole
    alone = inspected(each, [0])
    assert SHOWN_CHARS < len(alone) < SHOWN_CHARS + 100
    assert alone.count("x") > 1.9 * whole.count("x")
    assert inspected(task("x" * SHOWN_CHARS), [0]) == "[0] Agent0: " + "x" * SHOWN_CHARS


def test_a_cut_text_is_read_on_to_its_end() -> None:
    text = "".join(f"{n:06d}," for n in range(6000))
    each = task(text, "short")
    middle = inspected(each, [0])
    gone = len(text) - SHOWN_CHARS
    head = SHOWN_CHARS - SHOWN_CHARS // 3
    assert f"[... {gone} characters left out; start {head} reads on ...]" in middle
    read, start = "", 0
    while start < len(text):
        shown = read_on(each, [0], start).removeprefix("[0] Agent0: ")
        part, _, more = shown.partition(" [... ")
        read, start = read + part, start + len(part)
        assert bool(more) == (start < len(text))
        assert not more or f"start {start} reads on" in more
    assert read == text
    assert read_on(each, [0, 1], len(text)) == (
        "[0] Agent0: [the text ends at 42000]\n[1] Agent1: [the text ends at 5]"
    )
    assert read_on(each, [1], 0) == "[1] Agent1: short"
    assert read_on(each, [1], 3) == "[1] Agent1: rt"
    for bad in (-1, True, "2", 1.5):
        assert read_on(each, [0], bad).startswith("error: start must be")


def read_on(task: Task, ids: Any, start: Any) -> str:
    arguments = {"step_ids": ids, "start": start}
    return asyncio.run(DOMAIN.world(task).call("inspect", arguments))


@given(st.lists(st.text(max_size=60), min_size=1, max_size=12), st.integers(0, 60))
def test_reading_on_leaves_nothing_out(texts: list[str], start: int) -> None:
    each = task(*texts)
    shown = read_on(each, list(range(len(texts))), start)
    wanted = [f"[{n}] Agent{n % 2}: {text[start:]}" for n, text in enumerate(texts)]
    ends = [f"[{n}] Agent{n % 2}: [the text ends at {len(text)}]" for n, text in enumerate(texts)]
    assert shown == "\n".join(
        end if start and start >= len(text) else want
        for text, want, end in zip(texts, wanted, ends, strict=True)
    )


@given(st.lists(st.text(max_size=60), min_size=1, max_size=12), st.integers(0, 300))
def test_what_fits_is_whole_and_what_is_cut_gets_no_less_than_what_is_not(texts, room) -> None:
    shown = fitted(texts, room)
    kept = [len(text) for text, seen in zip(texts, shown, strict=True) if text == seen]
    cut = [len(text) for text, seen in zip(texts, shown, strict=True) if text != seen]
    if sum(map(len, texts)) <= room:
        assert shown == texts
    assert sum(kept) <= room
    assert not cut or not kept or min(cut) > max(kept)


def test_the_first_answer_counts() -> None:
    async def course() -> object:
        world = AttributionWorld(task("a", "b").public, {"0": "a", "1": "b"})
        assert world.answer is None
        for bad in ({"agent": "", "step": 1}, {"agent": "A", "step": "1"}, {"agent": "A"}, {}):
            assert (await world.call("final_answer", bad)).startswith("error: ")
        assert (await world.call("final_answer", {"agent": "A", "step": True})).startswith("error")
        assert world.answer is None
        assert await world.call("final_answer", {"agent": "A", "step": 1}) == "recorded"
        again = await world.call("final_answer", {"agent": "B", "step": 0})
        assert again.startswith("already recorded")
        assert (await world.call("nothing", {})).startswith("error: no tool")
        assert (await world.exec("ls")).return_code == 127
        return world.answer

    assert asyncio.run(course()) == {"agent": "A", "step": 1}
