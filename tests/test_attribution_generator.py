"""Generated logs: solvable, disjoint, no use to a guesser, the same for the same secret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attribution_solver import said_in, solve

from engine.domains import Task
from engine.domains.attribution import generator
from engine.domains.attribution.domain import DOMAIN, LONG, Attribution
from engine.domains.split import TaskSplits
from engine.errors import ConfigError
from engine.near import near_duplicates
from engine.overlap import require_disjoint

SIZES = {"train": 300, "validation": 100, "test": 100}


@pytest.fixture(scope="module")
def splits() -> TaskSplits:
    return DOMAIN.generate("a secret", 7, SIZES)


@pytest.fixture(scope="module")
def long() -> Sequence[Task]:
    return LONG.generate("a secret", 7, {"train": 120}).train


def everything(splits: TaskSplits) -> list[Task]:
    return [*splits.train, *splits.validation, *splits.test]


def figures(tasks: Sequence[Task], guess: Callable[[Task], dict[str, Any]]) -> dict[str, float]:
    return DOMAIN.metrics([(task, DOMAIN.verify(task, guess(task))) for task in tasks])


def solved(task: Task) -> dict[str, Any]:
    agent, step = solve(task.instruction, said_in(task))
    return {"agent": agent, "step": step}


def test_a_solver_that_reads_the_log_is_always_right(splits, long) -> None:
    """It also finds no second error that is left standing."""
    for task in [*everything(splits), *long]:
        assert DOMAIN.verify(task, solved(task)).accepted, (said_in(task), task.private)


@pytest.mark.parametrize("seed", range(3))
def test_no_number_is_negative_whatever_goes_wrong(seed) -> None:
    made = Attribution(lengths=(5, 20)).generate("numbers", seed, {"train": 700}).train
    for task in made:
        assert DOMAIN.verify(task, solved(task)).accepted, said_in(task)
        assert not any("= -" in text for text in task.private["texts"].values())


def spoken(task: Task, place: int) -> str:
    return task.public["steps"][place]["agent"]


def most_frequent(task: Task) -> str:
    return Counter(each["agent"] for each in task.public["steps"]).most_common(1)[0][0]


def test_guessers_do_badly(splits, long) -> None:
    for tasks in (everything(splits), long):
        last = figures(
            tasks, lambda t: {"agent": spoken(t, -1), "step": len(t.public["steps"]) - 1}
        )
        first = figures(tasks, lambda t: {"agent": spoken(t, 0), "step": 0})
        assert max(last["step_accuracy"], first["step_accuracy"]) < 0.25
        assert max(last["agent_accuracy"], first["agent_accuracy"]) < 0.45
        assert figures(tasks, lambda t: {"agent": most_frequent(t), "step": 3})["score"] < 0.3
    for step in range(12):
        found = figures(everything(splits), lambda t, s=step: {"agent": "", "step": s})
        assert found["step_accuracy"] < 0.25


def test_lengths_teams_and_kinds(splits, long) -> None:
    lengths = Counter(len(task.public["steps"]) for task in everything(splits))
    assert min(lengths) >= 5 and max(lengths) <= 12 and len(lengths) == 8
    far = [len(task.public["steps"]) for task in long]
    assert min(far) <= 8 and max(far) > 90 and max(far) <= 130
    assert {task.strata["length"] for task in long} == {"<=10", "11-20", "21-40", ">40"}
    teams = Counter(task.strata["agents"] for task in everything(splits))
    assert {"3", "4", ">=5"} <= set(teams)
    texts = [text for task in everything(splits) for text in task.private["texts"].values()]
    for said in ("Over to", "Does anybody object", "Who takes", "please go on"):
        assert sum(said in text for text in texts) > 10, "a topology of its own"


def test_symptoms_stand_far_from_the_cause_and_some_errors_are_mended(splits) -> None:
    tasks = everything(splits)
    after = [len(t.public["steps"]) - 1 - t.private["mistake_step"] for t in tasks]
    assert sum(distance >= 3 for distance in after) > len(tasks) / 2
    corrected = [t for t in tasks if any(x.startswith("No, ") for x in t.private["texts"].values())]
    blamed = [
        t for t in corrected if t.private["texts"][str(t.private["mistake_step"])][:4] == "No, "
    ]
    assert len(tasks) / 4 < len(corrected) < len(tasks)
    assert len(blamed) < len(corrected) / 2, "a correction is most often right"


def test_a_short_log_fits_a_small_context(splits) -> None:
    """At two characters a token, a low estimate even for numbers, a whole log takes 500 of 2,048
    tokens; the rest is for prompt, tools and replies."""
    for task in everything(splits):
        assert sum(map(len, task.private["texts"].values())) < 1000
        assert len(task.instruction) < 200


def test_no_problem_stands_in_two_splits(splits) -> None:
    parts = {"train": splits.train, "validation": splits.validation, "test": splits.test}
    assert {name: len(part) for name, part in parts.items()} == SIZES
    require_disjoint(parts)
    assert near_duplicates(parts) == []
    assert len({task.group for task in everything(splits)}) == 500


def test_the_same_secret_gives_the_same_logs_and_another_gives_others(splits) -> None:
    again = DOMAIN.generate("a secret", 7, SIZES)
    assert everything(again) == everything(splits)
    small = DOMAIN.generate("a secret", 7, {"validation": 10})
    assert list(small.validation) == list(splits.validation[:10]) and not small.train
    for salt, seed in (("another", 7), ("a secret", 8)):
        other = DOMAIN.generate(salt, seed, {"train": 40}).train
        assert not {task.id for task in other} & {task.id for task in splits.train}
        assert not {task.content for task in other} & {task.content for task in splits.train}


def test_lengths_can_be_asked_for() -> None:
    made = Attribution(lengths=(40, 60)).generate("s", 1, {"train": 12}).train
    assert all(40 <= len(task.public["steps"]) <= 60 for task in made)


@pytest.mark.parametrize("lengths", [(4, 12), (5, 131), (20, 10)])
def test_lengths_out_of_bounds_are_refused(lengths) -> None:
    with pytest.raises(ConfigError, match="lengths: expected"):
        generator.generate("s", 1, {"train": 1}, lengths)


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match="salt"):
        DOMAIN.generate("", 1, {"train": 1})
    with pytest.raises(ConfigError, match=r"sizes\.train"):
        DOMAIN.generate("s", 1, {"train": -1})
