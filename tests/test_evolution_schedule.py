"""The schedule of self-evolution: budgets, batches, anchors, and what is refused at the start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domains import Task
from engine.errors import ConfigError
from engine.params import EvolutionParams, parse
from engine.self_evolution import anchors
from engine.self_evolution.batches import batch_name, batch_number, gate_tasks, new_tasks
from engine.self_evolution.schedule import cosine_budgets, plan, require_tasks

OLD = ["terminal", "asynchronous", "documents", "dialogue", "repair"]
PAPER: Mapping[str, Any] = {
    "stages": [
        {"per_family": 12, "iterations": 5, "budget": [500, 100]},
        {
            "families": ["claw"],
            "per_family": 40,
            "anchors": 20,
            "iterations": 2,
            "budget": [200, 100],
        },
    ]
}


def pool(families: Mapping[str, int]) -> list[Task]:
    return [
        Task(f"{family}-{n}", "do", {}, {}, f"{family} {n}", {"family": family})
        for family, count in families.items()
        for n in range(count)
    ]


def params(**values: Any) -> EvolutionParams:
    return EvolutionParams.model_validate({**PAPER, **values})


def ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


def test_the_paper_s_budgets() -> None:
    """Eq. 8 for T = 5 by hand: 300 + 200 cos(π t/4) = 500, 441.42, 300, 158.58, 100."""
    assert cosine_budgets(5, 500, 100) == [500, 441, 300, 159, 100]
    assert cosine_budgets(2, 200, 100) == [200, 100]
    with pytest.raises(ConfigError, match=r"divides by T-1 = 0"):
        cosine_budgets(1, 500, 100)


@given(st.integers(2, 40), st.integers(1, 900), st.integers(0, 900))
def test_budgets_fall_from_the_highest_to_the_lowest(steps: int, lowest: int, more: int) -> None:
    found = cosine_budgets(steps, lowest + more, lowest)
    assert (found[0], found[-1], len(found)) == (lowest + more, lowest, steps)
    assert found == sorted(found, reverse=True)


def test_the_paper_s_two_stages() -> None:
    found = plan(params(), [*OLD, "claw"])
    assert [i.budget for i in found.iterations] == [500, 441, 300, 159, 100, 200, 100]
    assert [i.size for i in found.iterations] == [60] * 5 + [60] * 2
    assert [(i.stage, i.step) for i in found.iterations][4:] == [(1, 4), (2, 0), (2, 1)]
    assert found[1].families == tuple(OLD) and found[6].families == ("claw",)
    assert [i.number for i in found.before(7)] == [1, 2, 3, 4, 5] and found.before(5) == ()


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 5), st.integers(0, 3))
def test_no_task_stands_in_two_batches_or_in_the_gate(
    seed: int, size: int, steps: int, gate: int
) -> None:
    stages = [
        {"per_family": size, "iterations": steps},
        {"families": ["c"], "per_family": 2 * size, "iterations": 2, "anchors": 1},
    ]
    held = {"gate": {"per_family": gate}} if gate else {}
    tasks = pool({"a": size * steps + gate, "b": 50, "c": 4 * size + gate})
    planned = plan(params(stages=stages, **held), ["a", "b", "c"])
    require_tasks(planned, tasks)
    drawn = [new_tasks(planned, tasks, i.number, seed) for i in planned.iterations]
    for iteration, batch in zip(planned.iterations, drawn, strict=True):
        assert Counter(task.strata["family"] for task in batch) == dict.fromkeys(
            iteration.families, iteration.per_family
        )
    everything = [*gate_tasks(planned, tasks, seed), *(task for batch in drawn for task in batch)]
    assert len(set(ids(everything))) == len(everything), "without replacement"
    used = {task.id for task in everything if task.strata["family"] == "a"}
    assert len(used) == size * steps + gate, "each task of family a exactly once"
    again = [new_tasks(planned, tasks, i.number, seed) for i in planned.iterations]
    assert again == drawn


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 40), st.integers(0, 3))
def test_anchors_are_spread_evenly(counts: list[int], wanted: int, step: int) -> None:
    solved = {str(n): pool({str(n): count}) for n, count in enumerate(counts)}
    chosen = anchors.choose(solved, wanted, step, "seed")
    assert len(set(ids(chosen))) == len(chosen) == min(wanted, sum(counts))
    share = Counter(task.strata["family"] for task in chosen)
    most = max(share.values(), default=0)
    for family, tasks in solved.items():
        assert share[family] >= min(len(tasks), most - 1), "one fewer at most, unless it lacks"


def test_the_next_iteration_of_a_stage_takes_other_anchors() -> None:
    solved = {family: pool({family: 10}) for family in OLD}
    first, second = (anchors.choose(solved, 20, step, "0") for step in (0, 1))
    assert not set(ids(first)) & set(ids(second))
    assert Counter(task.strata["family"] for task in first) == dict.fromkeys(OLD, 4)


def test_names_of_batches() -> None:
    assert batch_name(7) == "batch-007" and batch_number("batch-007") == 7
    assert batch_number("validation") is None and batch_number("batch-x") is None


def test_a_pool_that_is_too_small_is_refused_with_the_arithmetic() -> None:
    planned = plan(params(), [*OLD, "claw"])
    require_tasks(planned, pool({**dict.fromkeys(OLD, 60), "claw": 80}))
    with pytest.raises(ConfigError) as error:
        require_tasks(planned, pool({**dict.fromkeys(OLD, 60), "claw": 60}))
    said = str(error.value)
    assert "'claw' needs 2 iterations x 40 = 80 training tasks" in said
    assert "has 60" in said and "splits.train must be 6 x 80 = 480" in said
    held = plan(params(gate={"per_family": 3}), [*OLD, "claw"])
    with pytest.raises(ConfigError, match=r"5 iterations x 12 \+ 3 held back for the gate = 63"):
        require_tasks(held, pool({**dict.fromkeys(OLD, 60), "claw": 90}))


def test_anchors_that_can_t_be_are_refused() -> None:
    stages = [
        {"per_family": 1, "iterations": 2},
        {"families": ["b"], "per_family": 1, "iterations": 2, "anchors": 9},
    ]
    planned = plan(params(stages=stages), ["a", "b"])
    with pytest.raises(ConfigError, match="asks for 9 anchors, and the stages before it run 2"):
        require_tasks(planned, pool({"a": 5, "b": 5}))
    with pytest.raises(ConfigError, match="first stage asks for 2 anchors"):
        plan(params(stages=[{"anchors": 2}]), ["a"])


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([{"families": ["documnts"]}], "no family 'documnts'; did you mean 'documents'?"),
        ([{"families": ["xyz"]}], "it has: terminal"),
        ([{"iterations": 1}], "T = 1 iteration divides by T-1 = 0"),
        ([{}, {"families": OLD}], "a stage without families, and others name them all"),
    ],
)
def test_a_stage_that_can_t_be_is_refused(stages: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        plan(params(stages=stages), OLD)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{mode: self, rounds: 8}",
            "rounds: 8, but evolution.stages have 5 = 5 iterations, one a round; set rounds: 5",
        ),
        ("{evolution: {stages: [{budget: [100, 500]}]}}", "a budget falls"),
        ("{evolution: {stages: [{per_famly: 2}]}}", "did you mean 'per_family'?"),
        ("{evolution: {stages: []}}", "evolution.stages"),
        ("{evolution: {gate: {levl: 0.9}}}", "did you mean 'level'?"),
    ],
)
def test_params_that_can_t_be_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "params.yaml")
    assert said in str(error.value)
