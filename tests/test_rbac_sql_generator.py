"""Generated databases and questions: solvable, disjoint, the same for the same secret."""

from __future__ import annotations

from collections import Counter

import pytest
from rbac_sql_solver import solve

from engine.domains import Task
from engine.domains.rbac_sql.client import POOL
from engine.domains.rbac_sql.domain import DOMAIN
from engine.domains.rbac_sql.writing import write
from engine.domains.split import TaskSplits
from engine.errors import ConfigError

SIZES = {"train": 200, "validation": 100, "test": 100}


@pytest.fixture(scope="module")
def splits() -> TaskSplits:
    return DOMAIN.generate("a secret", 7, SIZES)


def everything(splits: TaskSplits) -> list[Task]:
    return [*splits.train, *splits.validation, *splits.test]


def test_a_solver_that_reads_only_what_is_public_is_always_right(splits) -> None:
    for task in everything(splits):
        answer = solve(task.instruction, DOMAIN.world(task).public)
        verdict = DOMAIN.verify(task, answer)
        assert verdict.accepted, (task.instruction, answer, task.private["gold_sql"])


def test_the_label_is_what_sqlite_says_of_the_reference(splits) -> None:
    for task in everything(splits):
        sql, private = task.private["gold_sql"], task.private
        judged = POOL.judge(private["database"], sql, sql, private["grants"])
        assert judged.correct and judged.status == "ok"
        assert judged.granted == (private["permission"] == "allowed"), task


def test_sizes_and_shares(splits) -> None:
    parts = (splits.train, splits.validation, splits.test)
    assert [len(part) for part in parts] == [200, 100, 100]
    for part in parts:
        allowed = sum(task.private["permission"] == "allowed" for task in part) / len(part)
        assert 0.4 < allowed < 0.75
    roles = Counter(task.public["role"] for task in everything(splits))
    assert len(roles) == 4 and max(roles.values()) < 200, "a role's name tells nothing"
    labels = Counter((t.public["role"], t.private["permission"]) for t in everything(splits))
    assert all(count > 10 for count in labels.values()) and len(labels) == 8


def test_no_question_stands_in_two_splits(splits) -> None:
    parts = (splits.train, splits.validation, splits.test)
    for aspect in ("id", "content", "group"):
        values = [{getattr(task, aspect) for task in part} for part in parts]
        assert sum(map(len, values)) == len(set().union(*values))
    assert len({task.id for task in everything(splits)}) == 400


def test_validation_shares_databases_with_training_and_the_test_split_none(splits) -> None:
    def scripts(part) -> set[str]:
        return {task.private["database"]["script"] for task in part}

    assert scripts(splits.validation) & scripts(splits.train)
    assert not scripts(splits.test) & (scripts(splits.train) | scripts(splits.validation))
    assert all(task.public["policy_rows"] == [] for task in splits.test)


def test_policy_rows_are_those_of_training_roles(splits) -> None:
    """What rules may be made of: the policies of (database, role) that training tasks have."""
    trained = {(t.private["database"]["script"], t.public["role"]) for t in splits.train}
    for task in splits.validation:
        script = task.private["database"]["script"]
        expected = {role for known, role in trained if known == script}
        shown = {row["role"] for row in task.public["policy_rows"]}
        assert shown <= expected  # a role that is granted nothing has no row
    assert any(task.public["policy_rows"] for task in splits.validation)


def test_some_roles_may_only_write(splits) -> None:
    assert any("GRANT INSERT" in task.public["policy"] for task in splits.train)


def test_the_same_secret_gives_the_same_tasks_and_another_gives_others(splits) -> None:
    again = DOMAIN.generate("a secret", 7, SIZES)
    assert (again.train, again.validation, again.test) == (
        splits.train,
        splits.validation,
        splits.test,
    )
    for salt, seed in (("another", 7), ("a secret", 8)):
        other = DOMAIN.generate(salt, seed, {"train": 40})
        assert not {t.id for t in other.train} & {t.id for t in splits.train}


def test_a_larger_split_begins_with_the_smaller(splits) -> None:
    small = DOMAIN.generate("a secret", 7, {"train": 200, "test": 10})
    assert list(small.test) == list(splits.test[:10])


def test_labels_stay_behind(splits) -> None:
    for task in splits.train[:20]:
        practice = DOMAIN.practice(task, "Another question?")
        assert set(practice.private) == {"database"}
        assert not {"gold_sql", "permission"} & set(DOMAIN.world(task).public)


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match="salt"):
        DOMAIN.generate("", 1, {"train": 1})
    with pytest.raises(ConfigError, match=r"sizes\.train"):
        DOMAIN.generate("s", 1, {"train": -1})


def test_written_as_files_they_are_read_back(tmp_path) -> None:
    written = write(tmp_path, "a secret", 3, {"train": 12, "validation": 4, "test": 6})
    read = DOMAIN.load(tmp_path, 0, {"train": 12, "test": 6})
    known = {task.id: task for task in everything(written)}
    for task in everything(read):
        origin = known[task.id]
        for part in ("instruction", "content"):
            assert getattr(task, part) == getattr(origin, part)
        assert task.public["schema"] == origin.public["schema"]
        assert task.private["grants"] == origin.private["grants"]
        answer = solve(task.instruction, task.public)
        assert DOMAIN.verify(task, answer).accepted
