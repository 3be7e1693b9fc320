"""Figures by family, averages that weigh families equally, and the tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_script import SYSTEM, Script, says, user

from engine.domains import Task, Verdict
from engine.records import Rollout
from engine.self_evolution.report import gain, report
from engine.self_evolution.table import Table
from engine.statistics import group_average


def rollout(
    name: str, family: str, score: float, end: str = "answered", ood: str = "no"
) -> Rollout:
    script = Script()
    script.ask([SYSTEM, user("Do it.")], says("done"))
    task = Task(name, "Do it.", {}, {}, name, {"family": family, "ood": ood})
    return Rollout(name, task, script.trajectory(end), Verdict(score, score == 1, {}))


def measured() -> list[Rollout]:
    """Family files: four tasks, 1 1 1 0. Family needle: one task, twice, 0 and 1; out of
    distribution: one task, 0.2."""
    return [
        *(rollout(f"f{n}", "files", float(n < 3)) for n in range(4)),
        rollout("n0", "needle", 0.0, "context_overflow"),
        rollout("n0", "needle", 1.0),
        rollout("o0", "forensics", 0.2, "timeout", "yes"),
    ]


def test_families_weigh_the_same_whatever_their_size() -> None:
    """(0.75 + 0.5) / 2 = 0.625 in distribution; with 0.2 beside them 1.45 / 3."""
    found = report(measured())
    assert found.in_distribution is not None and found.out_of_distribution is not None
    assert found.in_distribution.mean == pytest.approx(0.625)
    assert found.out_of_distribution.mean == pytest.approx(0.2)
    assert found.overall.mean == pytest.approx(1.45 / 3)
    rows = {row.family: row for row in found.families}
    assert list(rows) == ["files", "needle", "forensics"], "those kept out come last"
    assert (rows["files"].tasks, rows["files"].executions) == (4, 1)
    assert (rows["needle"].tasks, rows["needle"].executions) == (1, 2)
    assert rows["needle"].ends == {"context_overflow": 1, "answered": 1}
    assert rows["needle"].overflow == 0.5
    assert rows["files"].mechanisms == {"truncation": 0, "compaction": 0, "review": 0}


def test_the_gain_is_paired_by_task() -> None:
    after = [
        *(rollout(f"f{n}", "files", 1.0) for n in range(4)),
        rollout("n0", "needle", 0.0),
        rollout("n0", "needle", 0.0),
        rollout("o0", "forensics", 0.4, ood="yes"),
    ]
    inside, outside = gain(measured(), after, False), gain(measured(), after, True)
    assert inside is not None and inside.mean == pytest.approx((0.25 - 0.5) / 2)
    assert outside is not None and outside.mean == pytest.approx(0.2)
    assert gain([after[0]], [after[0]], True) is None


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.lists(st.floats(0, 1), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_an_average_lies_in_its_interval(groups: dict[str, list[float]]) -> None:
    found = group_average(groups, draws=200)
    means = [sum(scores) / len(scores) for scores in groups.values()]
    assert found.mean == pytest.approx(sum(means) / len(means))
    assert -1e-9 <= found.low <= found.high <= 1 + 1e-9
    if all(len(set(scores)) == 1 for scores in groups.values()):
        assert found.low == pytest.approx(found.high) == pytest.approx(found.mean)


def test_an_empty_group_has_no_average() -> None:
    with pytest.raises(ValueError, match="every group"):
        group_average({"files": []})


def test_tables_as_text_and_as_markdown() -> None:
    table = Table("Scores", ("family", "seed"), (("files", "1.00"), ("a|b", "66.67")))
    assert table.text() == "Scores\n  family   seed\n  files    1.00\n  a|b     66.67\n"
    assert table.markdown().splitlines()[2:] == [
        "| family | seed |",
        "| --- | ---: |",
        "| files | 1.00 |",
        "| a\\|b | 66.67 |",
    ]
