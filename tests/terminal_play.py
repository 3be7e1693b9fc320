"""Playing generated terminal problems by given commands and calls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from engine.domains.terminal.families import FAMILIES
from engine.domains.terminal.problem import Problem
from engine.domains.terminal.world import TerminalWorld

Calls = Sequence[tuple[str, Mapping[str, Any]]]


def made(family: str, difficulty: int, seed: int = 0) -> Problem:
    return FAMILIES[family].make(random.Random(f"{seed}/{family}"), difficulty)


def played(problem: Problem, script: str = "", calls: Calls = ()) -> tuple[float, str]:
    """Score and the grader's words after one command and then these calls of tools."""

    async def run() -> tuple[float, str]:
        world = TerminalWorld(problem)
        try:
            if script:
                done = await world.exec(script)
                assert done.return_code == 0, done
            for name, arguments in calls:
                await world.call(name, arguments)
            await world.settle()
            assert world.answer is not None
            return world.answer["score"], world.answer["grader"]
        finally:
            await world.close()

    return asyncio.run(run())
