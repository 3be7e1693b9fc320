"""Every family: solvable by its own solution, worth nothing when untouched, endless, seeded."""

from __future__ import annotations

import asyncio
import random

import pytest

from engine.domains.terminal.families import FAMILIES
from engine.domains.terminal.problem import DIFFICULTIES, Problem
from engine.domains.terminal.world import TerminalWorld


def graded(problem: Problem, *, solve: bool) -> tuple[float, str]:
    """The score of a rollout that does what the solution says, or nothing at all."""

    async def run() -> tuple[float, str]:
        world = TerminalWorld(problem)
        try:
            if solve:
                done = await world.exec(problem.solution)
                assert done.return_code == 0, done
                for name, arguments in problem.solution_calls:
                    await world.call(name, arguments)
            await world.settle()
            assert world.answer is not None
            return world.answer["score"], world.answer["grader"]
        finally:
            await world.close()

    return asyncio.run(run())


def made(family: str, difficulty: int, seed: int = 0) -> Problem:
    return FAMILIES[family].make(random.Random(f"{seed}/{family}"), difficulty)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_solution_solves_and_doing_nothing_scores_nothing(family: str, difficulty: int) -> None:
    problem = made(family, difficulty)
    score, text = graded(problem, solve=True)
    assert score == 1.0, text
    assert graded(problem, solve=False)[0] == 0.0


@pytest.mark.parametrize("family", FAMILIES)
def test_tasks_are_seeded_and_endless(family: str) -> None:
    assert (
        made(family, 3) == made(family, 3) or made(family, 3).digest() == made(family, 3).digest()
    )
    digests = {
        made(family, difficulty, seed).digest() for difficulty in (1, 4) for seed in range(20)
    }
    assert len(digests) == 40
