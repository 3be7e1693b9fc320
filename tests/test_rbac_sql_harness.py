"""The seed harness: its rules, its conversation in the real sandbox, and the recipes on it."""

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
from rbac_sql_data import REAL, ZOO, needs_real

from engine.domains import Task
from engine.domains.rbac_sql import loader
from engine.domains.rbac_sql.domain import DOMAIN
from engine.domains.rbac_sql.item import make_task
from engine.domains.rbac_sql.world import TOOLS
from engine.editors.recipes import apply as recipe
from engine.editors.recipes.catalogue import RECIPES
from engine.editors.recipes.source import set_constant
from engine.workspace import read_workspace
from kernel.contract import Limits, Sampling
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, Step, call, malformed
from kernel.smoke import smoke
from kernel.trajectory import Trajectory

SEED = read_workspace(DOMAIN.seed_harness)
TABLES = {"keeper": ["id", "name", "hire_date"], "animal": ["id", "name", "age"]}
ROWS = [
    {"role": "boss", "table": "KEEPER", "operation": "select", "columns": ["id", "Hire_Date"]},
    {"role": "guide", "table": "keeper", "operation": "select", "columns": ["id", "name"]},
    {"role": "guide", "table": "animal", "operation": "insert", "columns": ["id", "name", "age"]},
]


@pytest.fixture(scope="module")
def seed() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rbac_seed", DOMAIN.seed_harness / "harness.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("question", "role", "expected"),
    [
        ("What is the hire date of Ada?", "guide", {"access_granted": False, "sql": ""}),
        ("What are the HIRE DATES?", "guide", {"access_granted": False, "sql": ""}),
        ("What is the hire date of Ada?", "boss", None),  # granted: the model writes the SQL
        (
            "How many keepers are there?",
            "guide",
            {"access_granted": True, "sql": 'SELECT count(*) FROM "keeper"'},
        ),
        ("How many animals are there?", "guide", {"access_granted": False, "sql": ""}),
        ("How many zebras are there?", "guide", None),
        ("What is the age of Rex?", "guide", None),  # one plain word is no proof
        ("What is the hire date of Ada?", "stranger", None),
        ("How many keepers are there?", "stranger", None),
    ],
)
def test_rules_decide_only_what_they_are_sure_of(seed, question, role, expected) -> None:
    assert seed.build_harness(ROWS).route(question, role, TABLES) == expected


def test_an_unknown_schema_or_no_row_at_all_goes_to_the_model(seed) -> None:
    question = "What is the hire date of Ada?"
    assert seed.build_harness([]).route(question, "guide", TABLES) is None
    assert seed.build_harness(ROWS).route(question, "guide", {"pilot": ["hire_date"]}) is None


def test_access_is_read_as_one_or_zero(seed) -> None:
    read = seed.build_harness([]).parse_access
    assert [read(v) for v in (True, 1, "1", " Yes ", "granted", "true")] == [1] * 6
    assert [read(v) for v in (False, 0, "0", "no", "denied", None, "", {})] == [0] * 8


@needs_real
def test_the_rules_are_right_where_they_decide_on_the_real_items(seed) -> None:
    found = loader.read(REAL)
    decided = right = 0
    for item in found.items:
        source = found.sources[item.database]
        task = make_task(item, source, source.policy.roles)
        harness = seed.build_harness(task.public["policy_rows"])
        answer = harness.route(item.question, item.role, task.public["tables"])
        if answer is not None:
            decided += 1
            right += answer["access_granted"] == (item.permission == "allowed")
    assert decided / len(found.items) > 0.05
    assert right / decided > 0.99


def zoo_task(question: str, rows: list[dict[str, Any]]) -> Task:
    public = {
        "role": "guide",
        "schema": ZOO.partition("\nINSERT")[0],
        "tables": {"keeper": ["id", "name", "salary"], "animal": ["id", "name", "age"]},
        "policy": "GRANT SELECT (id, name) ON keeper;",
        "grants": {"keeper": ["id", "name"]},
        "policy_rows": rows,
    }
    private = {
        "database": {"script": ZOO},
        "gold_sql": "SELECT name FROM keeper",
        "permission": "allowed",
        "grants": {"keeper": ["id", "name"]},
    }
    return Task("t", question, public, private, "zoo|q")


def play(task: Task, steps: list[Step], files: Any = None) -> tuple[Trajectory, ScriptedModel]:
    async def course() -> tuple[Trajectory, ScriptedModel]:
        model = ScriptedModel(steps)
        async with WorkerPool("bwrap") as pool:
            trajectory = await pool.run(
                SEED if files is None else files,
                task.instruction,
                model,
                DOMAIN.world(task),
                Limits(turns=DOMAIN.turn_limit),
                Sampling(),
                0,
            )
        return trajectory, model

    return asyncio.run(course())


def test_a_conversation_in_the_sandbox() -> None:
    task = zoo_task("List the keepers.", [])
    steps: list[Step] = [
        call("test_sql", {"sql": "SELECT name FROM keeper"}),
        call("final_answer", {"access_granted": True, "sql": "SELECT name FROM keeper"}),
    ]
    trajectory, model = play(task, steps)
    assert (trajectory.end, trajectory.turns, trajectory.violations) == ("answered", 2, 0)
    assert DOMAIN.verify(task, trajectory.answer).accepted
    first, second = (messages for messages, *_ in model.requests)
    assert first[0]["role"] == "system" and len(first) == 10  # four examples
    assert "GRANT SELECT (id, name) ON keeper;" in first[-1]["content"]
    assert first[-1]["content"].endswith("Question: List the keepers.")
    assert second[-1]["content"] == "name\nAda\nBo"


def test_a_question_that_the_rules_settle_takes_no_turn() -> None:
    rows = [
        {"role": "guide", "table": "keeper", "operation": "select", "columns": ["id", "name"]},
    ]
    trajectory, model = play(zoo_task("How many keepers are there?", rows), [malformed()])
    assert (trajectory.end, trajectory.turns, model.requests) == ("answered", 0, [])
    assert trajectory.answer == {"access_granted": True, "sql": 'SELECT count(*) FROM "keeper"'}


def test_a_rejected_answer_can_be_given_again() -> None:
    steps: list[Step] = [
        call("final_answer", {"sql": "SELECT 1"}),
        call("final_answer", {"access_granted": False}),
    ]
    trajectory, _ = play(zoo_task("List the keepers.", []), steps)
    assert (trajectory.turns, trajectory.violations) == (2, 1)
    assert trajectory.answer == {"access_granted": False, "sql": ""}


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


def with_recipe(name: str, **constants: int) -> dict[str, bytes]:
    applied = recipe.apply(SEED, name, random.Random(0))
    assert applied is not None
    files, path = applied.files, f"mechanisms/{name}.py"
    for key, value in constants.items():
        files[path] = set_constant(files[path], key, value)
    return files


def reply(sql: str) -> Step:
    return call("final_answer", {"access_granted": True, "sql": sql})


def test_try_sql_sends_the_error_back_once() -> None:
    task = zoo_task("List the keepers.", [])
    trajectory, model = play(task, [reply("SELECT nme FROM keeper")], with_recipe("try_sql"))
    assert (trajectory.end, trajectory.turns) == ("answered", 2)
    assert "no such column: nme" in model.requests[1][0][-1]["content"]
    good, _ = play(task, [reply("SELECT name FROM keeper")], with_recipe("try_sql"))
    assert (good.turns, good.answer["sql"]) == (1, "SELECT name FROM keeper")


@pytest.mark.parametrize(
    ("sql", "granted"),
    [
        ("SELECT NAME FROM Keeper", True),
        ("SELECT count(*) FROM keeper", True),
        ("WITH x AS (SELECT id FROM keeper) SELECT count(*) FROM x", True),
        ("SELECT name FROM keeper WHERE salary > 1", False),
        ("SELECT count(*) FROM animal", False),
        ("SELECT nothing FROM keeper", True),  # doesn't compile: nothing to hold against it
        ("SELECT 1; SELECT 2", True),
        ("SELECT '\0'", True),
    ],
)
def test_check_grants_refuses_what_the_policy_does_not_cover(sql, granted) -> None:
    trajectory, _ = play(zoo_task("Any?", []), [reply(sql)], with_recipe("check_grants"))
    assert trajectory.answer == {"access_granted": granted, "sql": sql if granted else ""}


def test_check_grants_may_tell_the_model_first() -> None:
    steps = [reply("SELECT salary FROM keeper"), reply("SELECT name FROM keeper")]
    files = with_recipe("check_grants", RETRIES=1)
    trajectory, model = play(zoo_task("Any?", []), steps, files)
    assert trajectory.answer == {"access_granted": True, "sql": "SELECT name FROM keeper"}
    assert "grants no keeper.salary" in model.requests[1][0][-1]["content"]


USABLE = {
    "try_sql",
    "check_grants",
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


def test_recipes_that_know_of_homes_do_not_apply_and_the_others_run() -> None:
    found = {name for name, each in RECIPES.items() if recipe.applicable(SEED, each)}
    assert found == USABLE
    files = dict(SEED)
    for name in sorted(found):
        applied = recipe.apply(files, name, random.Random(0))
        assert applied is not None
        files = applied.files

    async def course() -> list[str]:
        task = zoo_task("List the keepers.", [])
        async with WorkerPool("bwrap") as pool:
            return await smoke(
                pool,
                files,
                rules=DOMAIN.world(task).rules,
                world=lambda: DOMAIN.world(task),
                entry_points=DOMAIN.entry_points,
            )

    assert asyncio.run(course()) == []
