"""How terminal families get harder: the mean score of a careless solver by difficulty.

    python benchmarks/terminal_difficulty.py [--seeds 10] [--families documents,events]

Each is what a hasty agent does, beside the reference solution in the same run (which must score 1):

documents   answers from the reports without reading the notices
service     serves the first request and leaves
events      works off what is in the inbox by about tick 15 and leaves
schedule    puts each session into the first free room that holds it, without reading the requests
forensics   lets aborted transactions take effect

Exits with 1 when a reference solution scores less than 1, or (above difficulty 1)
a careless one always does.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from engine.domains.terminal.families import FAMILIES
from engine.domains.terminal.problem import DIFFICULTIES, Problem
from engine.domains.terminal.world import TerminalWorld

Plan = tuple[str, Sequence[tuple[str, Mapping[str, Any]]]]


def documents(problem: Problem) -> Plan:
    return problem.solution.replace("notices/", "nowhere/"), ()


def service(problem: Problem) -> Plan:
    calls = problem.solution_calls
    ends = [
        n for n, (_, arguments) in enumerate(calls) if arguments.get("text") == "Anything else?"
    ]
    return "true", calls[: ends[0]] if ends else calls


def events(problem: Problem) -> Plan:
    return problem.solution, [*[("wait", {"ticks": 5})] * 3, problem.solution_calls[-1]]


def schedule(problem: Problem) -> Plan:
    table = {name: data.decode().splitlines() for name, data in problem.files.items()}
    rooms = sorted(csv.DictReader(table["rooms.csv"]), key=lambda row: int(row["seats"]))
    free = {row["room"]: 0 for row in rooms}
    lines = ["session,room,start"]
    for row in csv.DictReader(table["sessions.csv"]):
        fit = [r["room"] for r in rooms if int(r["seats"]) >= int(row["people"])]
        room = min(fit, key=lambda name: free[name])
        lines.append(f"{row['session']},{room},{free[room]}")
        free[room] += int(row["hours"])
    return "cat > timetable.csv <<'END'\n" + "\n".join(lines) + "\nEND", ()


def forensics(problem: Problem) -> Plan:
    aborted = "    else:\n        pending.pop(unit, None)\n"
    assert aborted in problem.solution
    return problem.solution.replace(aborted, "").replace("elif kind == 4:", "else:"), ()


CARELESS: Mapping[str, Callable[[Problem], Plan]] = {
    solver.__name__: solver for solver in (documents, service, events, schedule, forensics)
}


async def score(problem: Problem, plan: Plan) -> float:
    world = TerminalWorld(problem)
    try:
        await world.exec(plan[0])
        for name, arguments in plan[1]:
            await world.call(name, arguments)
        await world.settle()
        assert world.answer is not None
        return float(world.answer["score"])
    finally:
        await world.close()


async def measured(family: str, difficulty: int, seeds: int) -> tuple[float, float]:
    """Mean scores of the reference solution and of the careless solver."""
    right, careless = [], []
    for seed in range(seeds):
        problem = FAMILIES[family].make(random.Random(f"{seed}/{family}/{difficulty}"), difficulty)
        right.append(await score(problem, (problem.solution, problem.solution_calls)))
        careless.append(await score(problem, CARELESS[family](problem)))
    return fmean(right), fmean(careless)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--families", default=",".join(CARELESS))
    given = parser.parse_args()
    broken = False
    print(f"{'family':10}  " + "  ".join(f"d={d:<4}" for d in DIFFICULTIES))
    for family in given.families.split(","):
        cells = []
        for difficulty in DIFFICULTIES:
            right, careless = asyncio.run(measured(family, difficulty, given.seeds))
            broken |= right < 1 or (careless == 1 and difficulty > 1)
            cells.append(f"{careless:.2f}" + ("" if right == 1 else f" (!{right:.2f})"))
        print(f"{family:10}  " + "  ".join(f"{cell:6}" for cell in cells), flush=True)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
