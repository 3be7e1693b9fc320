"""Beyond the paper, and off by default: the gate and several lineages. And what `open` refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evolution_runs import (
    HARNESS,
    STAGE_ONE,
    STAGE_TWO,
    TRUNCATE,
    comment,
    evolving_run,
    iterate,
    note,
    rule,
)
from runs import RunRepository

from engine.evaluation.keys import digest
from kernel import turn

GIVE_UP = (
    f"python3 -c \"import pathlib; p = pathlib.Path('{HARNESS}'); "
    "p.write_text(p.read_text().replace('model, world):\\n', 'model, world):\\n    return\\n'))\""
)
"""A harness that never asks the model: it runs, and solves nothing."""


def rows(run: RunRepository) -> list[dict[str, Any]]:
    return list(json.loads(run.ok("coevo", "log", "--json")))


def test_without_a_gate_a_loser_takes_over_and_with_one_it_doesn_t(tmp_path: Path) -> None:
    rules = [
        rule("at most 500", do=[GIVE_UP, note("Give up.")]),
        rule("at most 441", do=[TRUNCATE, note("Cut.")]),
    ]
    plain = evolving_run(tmp_path / "plain", rules)
    iterate(plain)
    assert rows(plain)[-1]["accepted"] and rows(plain)[-1]["score"] == 0
    gated = evolving_run(
        tmp_path / "gated",
        rules,
        evolution={"stages": [STAGE_ONE, STAGE_TWO], "gate": {"per_family": 2}},
    )
    iterate(gated, 2)
    _, first, second = rows(gated)
    assert not first["accepted"] and first["score"] > 0
    assert first["why"].startswith("kept at H_t: the gate found -0.833 [")
    assert second["accepted"] and "; gate +0.167" in second["why"]
    whole = json.loads(gated.ok("git", "show", "evo/evolution:round.json"))
    gate = whole["candidates"]["candidates"][0]["preliminary"]
    assert (gate["split"], gate["tasks"]) == ("gate", 12)
    batches = [
        set(json.loads(gated.ok("git", "show", f"{pair}:outcome.json"))["by_task"])
        for pair in ("evo/pair/r000-seed", "evo/pair/r001-k1-a", "evo/pair/r002-k1-a")
    ]
    assert not set(gate["by_task"]) & set().union(*batches), "held back from every batch"


def lots(seed: int) -> list[int]:
    """The lots of the two lineages' sessions in rounds 1 and 2."""
    return [
        turn.seed(int(digest([seed, number, slot, 0])[:7], 16), 0) % 2
        for number in (1, 2)
        for slot in ("k1", "k2")
    ]


def test_lineages_go_on_side_by_side_and_the_best_holds_the_title(tmp_path: Path) -> None:
    seed = next(seed for seed in range(100) if lots(seed) == [0, 1, 0, 1])
    rules = [
        rule("at most 500", "lot 0", do=[comment("one"), note("Say one.")]),
        rule("at most 500", "lot 1", do=[TRUNCATE, note("Cut.")]),
        rule("at most 441", "lot 0", do=[comment("two"), note("Say two.")]),
        rule("at most 441", "lot 1", do=[GIVE_UP, note("Give up.")]),
    ]
    run = evolving_run(
        tmp_path,
        rules,
        seed=seed,
        evolution={"stages": [STAGE_ONE, STAGE_TWO], "lineages": 2},
    )
    iterate(run, 2)
    found = {(row["iteration"], row["lineage"]): row for row in rows(run)[1:]}
    assert [found[1, "k1"]["title"], found[1, "k2"]["title"]] == [False, True]
    assert [found[2, "k1"]["title"], found[2, "k2"]["title"]] == [True, False]
    for lineage in ("k1", "k2"):
        base = run.ok("git", "log", "-1", "--format=%P", f"evo/harness/r002-{lineage}").strip()
        assert base == found[1, lineage]["harness"], "each goes on from its own head"
    log = run.ok("git", "log", "--format=%s", "evo/harness/r002-k1").splitlines()
    assert log == ["Say two.", "Say one.", "Archive the seed harness of evolving"]
    assert "* 2 k1" in run.ok("coevo", "log")
    run.set_params(evolution={"stages": [STAGE_ONE, STAGE_TWO], "lineages": 1})
    iterate(run)
    last = rows(run)[-1]
    assert (last["iteration"], last["harness"]) == (3, found[2, "k1"]["harness"]), (
        "the best goes on"
    )


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {
                "splits": {"train": 20, "validation": 4, "test": 4},
                "evolution": {"stages": [{**STAGE_ONE, "per_family": 2}, STAGE_TWO]},
            },
            "has 4; with 6 families in equal shares, splits.train must be 6 x 10 = 60 (it is 20)",
        ),
        ({"rounds": 8}, "set rounds: 7"),
        ({"evolution": {"stages": [{**STAGE_ONE, "iterations": 1}]}, "rounds": 1}, "T-1 = 0"),
        (
            {"evolution": {"stages": [STAGE_ONE, {**STAGE_TWO, "families": ["dialog"]}]}},
            "did you mean 'dialogue'?",
        ),
        (
            {"evolution": {"stages": [STAGE_ONE, {**STAGE_TWO, "anchors": 26}]}},
            "asks for 26 anchors, and the stages before it run 25 tasks",
        ),
    ],
)
def test_a_schedule_that_can_t_be_met_is_refused_before_anything_runs(
    tmp_path: Path, params: dict[str, Any], said: str
) -> None:
    run = evolving_run(tmp_path, [], **params)
    assert said in run.fails("coevo", "stage", "open", code=2)
    assert run.completions() == [] and not [ref for ref in run.refs() if "evo" in ref]
