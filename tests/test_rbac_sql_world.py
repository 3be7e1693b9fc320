"""The world: tools, and SQL that must not get away with it."""

from __future__ import annotations

import asyncio
import hashlib
import resource
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rbac_sql_data import ZOO, make_database

from engine.domains.rbac_sql.client import POOL, QueryPool
from engine.domains.rbac_sql.world import RbacSqlWorld
from engine.errors import DataError

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT "
TEN = f"({' UNION ALL '.join(f'SELECT {n}' for n in range(10))})"
HUGE = f"SELECT 1 FROM {', '.join([TEN] * 8)}"
DOUBLING = (
    "WITH c0 AS (SELECT 1 AS x)"
    + "".join(f", c{n + 1} AS (SELECT p.x FROM c{n} p, c{n} q)" for n in range(40))
    + " SELECT count(*) FROM c40"
)


@pytest.fixture
def source(tmp_path: Path) -> dict[str, str]:
    path = make_database(tmp_path / "a name?with#marks%20.sqlite")
    return {"file": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def tried(source: dict[str, str], sql: str) -> str:
    return asyncio.run(RbacSqlWorld({}, source).call("test_sql", {"sql": sql}))


def test_rows_are_shown_with_their_columns(source) -> None:
    assert tried(source, "SELECT name, age FROM animal ORDER BY id") == (
        "name | age\nRex | 3.0\nTig | 5.5\nRex | 3.0\nNULL | 1.0"
    )
    assert tried(source, "SELECT name FROM animal WHERE age > 99") == "name\n(no rows)"
    assert tried({"script": ZOO}, "SELECT max(salary) AS most FROM keeper") == "most\n900"


def test_an_error_is_told(source) -> None:
    assert tried(source, "SELECT nme FROM animal") == "error: no such column: nme"
    assert tried(source, "").startswith("error: no query")
    assert tried(source, "SELECT 1; SELECT 2").startswith("error: You can only execute one")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("INSERT INTO animal VALUES (9, 'x', 1, 1)", "writing is not allowed"),
        ("UPDATE animal SET age = 0", "writing is not allowed"),
        ("DELETE FROM animal", "writing is not allowed"),
        ("DROP TABLE animal", "writing is not allowed"),
        ("CREATE TABLE other (x)", "writing is not allowed"),
        ("CREATE TEMP TABLE other (x)", "writing is not allowed"),
        ("WITH x AS (SELECT 1) DELETE FROM animal", "writing is not allowed"),
        ("ATTACH 'other.db' AS other", "attaching a file is not allowed"),
        ("VACUUM INTO 'other.db'", "attaching a file is not allowed"),
        ("SELECT load_extension('other')", "reaches out of the database"),
        ("SELECT fts3_tokenizer('simple')", "reaches out of the database"),
        ("PRAGMA query_only = 0", "a pragma is not allowed"),
        ("PRAGMA writable_schema = 1", "a pragma is not allowed"),
        ("SELECT * FROM pragma_table_info('animal')", "not allowed"),
        ("BEGIN", "a transaction is not allowed"),
        ("SAVEPOINT x", "a savepoint is not allowed"),
        (ENDLESS + "count(*) FROM c", "over the time limit"),
        (DOUBLING, "over the memory limit"),
        ("SELECT zeroblob(1000000000)", "too big"),
        (ENDLESS + "group_concat(x) FROM c", "over the time limit"),
        ("SELECT hex(zeroblob(60000))", "too big"),
        (f"{ENDLESS} randomblob(60000) AS b FROM c ORDER BY b", "over the temporary space limit"),
        (f"SELECT {'(' * 5000}1{')' * 5000}", "error: "),
        (f"SELECT '{'x' * 30000}'", "longer than 20000 characters"),
        ("SELECT '\0'", "characters that SQL can't have"),
        ("SELECT '\ud800'", "characters that SQL can't have"),
    ],
)
def test_bad_sql_is_refused_or_stopped_and_changes_nothing(source, sql, words) -> None:
    path = Path(source["file"])
    before = path.read_bytes(), sorted(path.parent.iterdir())
    seen = tried(source, sql)
    assert seen.startswith("error: ") and words in seen
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == before
    assert tried(source, "SELECT count(*) FROM animal") == "count(*)\n4"


def test_a_hundred_million_rows_stop_at_the_first(source) -> None:
    lines = tried(source, HUGE).splitlines()
    assert len(lines) == 22 and "stopped" in lines[-1]


@pytest.mark.parametrize("sql", [ENDLESS + "x FROM c", ENDLESS + "count(*) FROM c", HUGE, DOUBLING])
def test_an_answer_that_never_ends_is_judged_wrong(source, sql) -> None:
    judged = POOL.judge(source, sql, "SELECT name FROM animal", {"animal": ["name"]})
    assert (judged.status, judged.correct) == ("stopped", False)


def test_a_script_database_is_the_same_after_every_attempt() -> None:
    tried({"script": ZOO}, "DELETE FROM keeper")
    assert tried({"script": ZOO}, "SELECT count(*) FROM keeper") == "count(*)\n2"


def test_a_slow_query_delays_neither_the_loop_nor_another_query(source) -> None:
    async def course() -> tuple[list[str], int]:
        worlds = [RbacSqlWorld({}, source) for _ in range(2)]
        quick = {"sql": "SELECT 1"}
        await asyncio.gather(*(world.call("test_sql", quick) for world in worlds))  # both warm
        ended: list[str] = []
        ticks = 0

        async def ask(name: str, world: RbacSqlWorld, sql: str) -> None:
            await world.call("test_sql", {"sql": sql})
            ended.append(name)

        slow = asyncio.create_task(ask("slow", worlds[0], ENDLESS + "count(*) FROM c"))
        await asyncio.sleep(0)
        await ask("quick", worlds[1], "SELECT 1")
        while not slow.done():
            ticks += 1
            await asyncio.sleep(0.001)
        return ended, ticks

    ended, ticks = asyncio.run(course())
    assert ended == ["quick", "slow"] and ticks > 10


def test_memory_stays_in_bounds_and_no_process_is_left(source) -> None:
    pool = QueryPool()
    before = set(psutil.Process().children())
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert pool.preview(source, DOUBLING, 5).status == "stopped"
    assert pool.preview(source, HUGE, 5).rows == (("1",),) * 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size < 50_000  # kilobytes
    pool.close()
    assert set(psutil.Process().children()) <= before


def test_an_idle_process_that_was_killed_costs_nothing(source) -> None:
    pool, before = QueryPool(), set(psutil.Process().children())
    assert pool.preview(source, "SELECT 1", 5).status == "ok"
    (child,) = set(psutil.Process().children()) - before
    child.kill()
    child.wait()
    assert pool.preview(source, "SELECT 1", 5).status == "ok"
    pool.close()


def test_another_database_than_the_task_was_made_from_is_an_error(source) -> None:
    make_database(Path(source["file"]), "DROP TABLE keeper;")
    with pytest.raises(DataError, match="not the database that the splits were made from"):
        tried(source, "SELECT 1")
    Path(source["file"]).unlink()
    with pytest.raises(DataError, match="put the data folder back"):
        tried({**source, "sha256": "0"}, "SELECT 1")


def test_a_reference_that_fails_is_an_error(source) -> None:
    with pytest.raises(DataError, match="the reference query fails"):
        POOL.judge(source, "SELECT 1", "SELECT x FROM nothing", {})


def test_the_first_answer_counts() -> None:
    async def course() -> object:
        world = RbacSqlWorld({"role": "boss"}, {"script": ZOO})
        assert world.answer is None
        assert (await world.call("final_answer", {"access_granted": "yes"})).startswith("error:")
        assert await world.call("final_answer", {"access_granted": True, "sql": "SELECT 1"}) == (
            "recorded"
        )
        again = await world.call("final_answer", {"access_granted": False})
        assert again.startswith("already recorded")
        assert (await world.call("nothing", {})).startswith("error: no tool")
        assert (await world.exec("ls")).return_code == 127
        return world.answer

    assert asyncio.run(course()) == {"access_granted": True, "sql": "SELECT 1"}


def test_a_killed_engine_leaves_no_query_behind(tmp_path) -> None:
    asks = (
        "from engine.domains.rbac_sql.client import POOL\n"
        "while True:\n"
        f"    seen = POOL.preview({{'script': ''}}, {ENDLESS + 'count(*) FROM c'!r}, 5)\n"
        "    print(seen.status, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", asks], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as engine:
        assert engine.stdout is not None and engine.stderr is not None
        assert engine.stdout.readline() == "stopped\n"
        children = psutil.Process(engine.pid).children()
        assert children
        engine.kill()
        gone, left = psutil.wait_procs(children, timeout=30)
        assert (len(gone), left, engine.stderr.read()) == (len(children), [], "")
