"""What goes wrong is one line that names the place and the mend; the archive stays as it was, and
the round goes on once it is mended. All through the console script, as DVC calls it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from runs import RunRepository

Copy = Callable[[RunRepository], RunRepository]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return lambda run: run.copied(tmp_path / "base")


@pytest.fixture(scope="module")
def edited(one_round: RunRepository, tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """In the middle of round 2; not to be changed."""
    made = one_round.copied(tmp_path_factory.mktemp("edited") / "base")
    for stage in ("open", "observe", "curate", "edit"):
        made.ok("coevo", "stage", stage)
    return made


def params(run: RunRepository) -> dict[str, Any]:
    return dict(yaml.safe_load((run.folder / "params.yaml").read_text()))


def branches(run: RunRepository) -> dict[str, str]:
    """Every branch but those of this round's merges, which may be there before the rest."""
    return {r: o for r, o in run.refs().items() if r.startswith("refs/heads/") and "-m" not in r}


# --- parameters and data ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"offsprings": 3}, ["params.yaml", "'offsprings'", "did you mean 'offspring'"]),
        ({"editors": {"kind": "recipe"}}, ["editors.kind", "'recipe'", "'recipes'"]),
        ({"curator": {"kind": "embeded"}}, ["curator.kind", "'embedded'"]),
        ({"inheritance": {"kind": "seed_only", "preliminary": 4}}, ["inheritance.kind"]),
        ({"inheritance": {"merger": "merge-kit", "preliminary": 4}}, ["merger", "'mergekit'"]),
        ({"adaptation": {"trainer": "transformer"}}, ["adaptation.trainer", "'transformers'"]),
        ({"adaptation": {"trainer": "scripted:trian"}}, ["adaptation.trainer", "scripted:trian"]),
        ({"domain": "smart_hom"}, ["params.yaml: domain", "'smart_home'"]),
        ({"serving": {"backend": "embeded"}}, ["serving.backend", "'embedded'"]),
        ({"serving": {"backend": "external"}}, ["serving.base_url", "external"]),
        ({"splits": {"train": 0}}, ["splits.train", "greater than or equal to 1"]),
        ({"sandbox": "docker"}, ["sandbox", "'docker'"]),
        ({"run": "a/b"}, ["run", "'a/b'"]),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_typo_in_the_parameters_stops_before_anything_is_paid(
    fresh: RunRepository, copy: Copy, change: dict[str, Any], named: list[str]
) -> None:
    run = copy(fresh)
    before = run.refs()
    run.set_params(**change)
    said = run.fails("coevo", "stage", "open", code=2)
    assert all(part in said for part in named), said
    assert run.refs() == before and not run.completions()


def test_parameters_that_are_no_yaml_are_named(fresh: RunRepository, copy: Copy) -> None:
    run = copy(fresh)
    (run.folder / "params.yaml").write_text("run: [evo\n")
    assert "params.yaml: not YAML" in run.fails("coevo", "stage", "open", code=2)
    (run.folder / "params.yaml").write_text("- evo\n")
    assert "params.yaml: expected a mapping" in run.fails("coevo", "run", code=2)


def test_dvc_shows_the_line_and_goes_on_when_it_is_mended(fresh: RunRepository, copy: Copy) -> None:
    run = copy(fresh)
    good = params(run)["editors"]
    run.set_params(editors={"kind": "recipe"})
    assert "editors.kind" in run.fails("dvc", "repro")
    assert run.round() == -1
    run.set_params(editors=good)
    run.ok("coevo", "stage", "open")
    assert run.round() == 0


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ('{"id": "x", "input": "Turn it on.", "home_id": 1}', "output"),
        ('{"id": "x", "input": 7, "output": "{a.b.c()}", "home_id": 1}', "input"),
        ("not json", "JSON"),
    ],
)
def test_a_malformed_data_row_is_named_by_file_line_and_field(
    fresh: RunRepository, copy: Copy, row: str, named: str
) -> None:
    run = copy(fresh)
    path = run.base / "homes" / "train_pool.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], row, *lines[4:]]) + "\n")
    said = run.fails("coevo", "stage", "open", code=3)
    assert "train_pool.jsonl:5" in said and named in said, said
    assert run.round() == -1


# --- endpoints --------------------------------------------------------------------------------


def test_a_dead_endpoint_stops_the_round_and_scores_nothing(
    one_round: RunRepository, copy: Copy
) -> None:
    run = copy(one_round)
    before, serving = run.refs(), params(run)["serving"]
    run.set_params(
        serving={"backend": "external", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    )
    run.ok("coevo", "stage", "open")
    said = run.fails("coevo", "stage", "observe", code=6)
    assert "127.0.0.1:9" in said and "serving.base_url" in said
    assert run.refs() == before
    run.set_params(serving=serving)
    run.ok("coevo", "stage", "observe")


def test_an_endpoint_that_dies_in_a_stage_costs_no_finished_rollout(
    edited: RunRepository, copy: Copy
) -> None:
    run = copy(edited)
    before, serving = branches(run), params(run)["serving"]
    done = len(run.completions())
    dying = {**serving["options"], "dies_after": 15}
    run.set_params(serving=serving | {"options": dying})
    said = run.fails("coevo", "stage", "inherit", code=6)
    assert "http://scripted" in said and "what had finished is kept" in said
    assert branches(run) == before, "nothing half-measured is archived"
    assert len(run.completions()) - done == 15
    run.set_params(serving=serving)
    run.ok("coevo", "stage", "inherit")
    cost = json.loads((run.folder / "round" / "candidates.json").read_bytes())["cost"]
    assert cost["cached"] >= 5, "the finished ones come from the journal"
    run.sound()


# --- checkpoints and splits -------------------------------------------------------------------


def test_a_truncated_checkpoint_is_named_with_its_mend(
    one_round: RunRepository, copy: Copy
) -> None:
    run = copy(one_round)
    weights = json.loads(run.ok("coevo", "show", "r001-sft", "--json"))["weights"]
    folder = run.folder / "checkpoints" / weights[:12]
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes(data[:10])
    use = ("coevo", "use", "evo/pair/r001-adapted")
    said = run.fails(*use, str(run.base / "a"), code=7)
    assert str(folder) in said and weights[:12] in said and "delete the folder" in said
    shutil.rmtree(folder)
    cached = next(
        path
        for path in (run.folder / ".dvc" / "cache").rglob("*")
        if path.is_file() and path.read_bytes() == data
    )
    cached.chmod(0o644)
    cached.write_bytes(data[:10])
    said = run.fails(*use, str(run.base / "b"), code=7)
    assert str(cached) in said and "truncated" in said and "dvc remote add" in said
    assert not folder.exists(), "nothing broken is put in its place"
    cached.write_bytes(data)
    run.ok(*use, str(run.base / "c"))


def test_a_truncated_cache_is_filled_again_from_the_remote(
    one_round: RunRepository, copy: Copy
) -> None:
    run = copy(one_round)
    run.ok("dvc", "remote", "add", "--default", "shared", str(run.base / "remote"))
    run.ok("coevo", "push")
    shutil.rmtree(run.folder / "checkpoints")
    for path in (run.folder / ".dvc" / "cache").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:5])
    run.ok("coevo", "use", "evo/evolution", str(run.base / "agent"))


def test_a_changed_split_is_refused_and_restored(one_round: RunRepository, copy: Copy) -> None:
    run = copy(one_round)
    path = run.folder / ".coevo" / "splits" / "evo" / "validation.jsonl"
    path.write_text(path.read_text().replace("Turn on", "Turn off"))
    run.ok("coevo", "stage", "open")
    said = run.fails("coevo", "stage", "observe", code=3)
    assert str(path) in said and "delete it" in said
    path.unlink()
    run.ok("coevo", "stage", "observe")


def test_the_secret_is_needed_no_more_after_round_0(one_round: RunRepository, copy: Copy) -> None:
    run = copy(one_round)
    (run.folder / ".coevo" / "secret").unlink()
    done = len(run.completions())
    run.ok("coevo", "stage", "open")
    run.ok("coevo", "stage", "observe")
    assert len(run.completions()) == done, "the same tasks: every rollout is known"


# --- records and the journal ------------------------------------------------------------------


def test_a_garbled_or_missing_record_is_named_and_made_again(
    edited: RunRepository, copy: Copy
) -> None:
    run = copy(edited)
    record, text = run.folder / "round" / "offspring.json", ""
    for text in ("{", "{}", '{"schema": 1, "kind": "edited", "offspring": [{"slot": 3}]}'):
        record.write_text(text)
        assert str(record) in run.fails("coevo", "stage", "inherit", code=2)
    record.unlink()
    assert str(record) in run.fails("coevo", "stage", "inherit", code=2)
    (run.folder / "round" / "open.json").write_text("garbled")
    (run.folder / "round" / "evidence.json").unlink()
    run.ok("dvc", "repro")
    assert run.round() == 2
    (run.folder / "round" / "open.json").write_text("garbled")
    run.ok("dvc", "repro")
    run.sound()


def test_a_garbled_journal_is_named_and_may_be_moved_away(
    one_round: RunRepository, copy: Copy
) -> None:
    run = copy(one_round)
    run.ok("coevo", "stage", "open")
    path = run.folder / ".coevo" / "journal" / "evo.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE rollout SET trajectory = x'00ff'")
    assert str(path) in run.fails("coevo", "stage", "observe", code=4)
    for side in path.parent.iterdir():
        side.unlink()
    path.write_bytes(os.urandom(5000))
    said = run.fails("coevo", "stage", "observe", code=4)
    assert str(path) in said and "move it away" in said
    path.rename(run.base / "journal")
    run.ok("coevo", "stage", "observe")
    run.sound()


# --- offspring that fail, parameters that change ----------------------------------------------


def test_a_crashing_and_a_hanging_offspring_cost_only_their_own_rollouts(
    one_round: RunRepository, copy: Copy
) -> None:
    run = copy(one_round)
    inheritance = params(run)["inheritance"] | {"merges": 0, "shortlist": 9}
    run.set_params(
        editors={"kind": "scripted:FAULTY"}, limits={"wall_s": 3}, inheritance=inheritance
    )
    for stage in ("open", "observe", "curate", "edit", "inherit"):
        run.ok("coevo", "stage", stage)
    ends = {}
    pairs = json.loads(run.ok("coevo", "pairs", "--json"))
    for slot in ("k1", "k2", "k3"):
        name = next(p["name"] for p in pairs if p["name"].startswith(f"r002-{slot}"))
        outcome = json.loads(run.ok("git", "show", f"evo/pair/{name}:outcome.json"))
        ends[slot] = outcome["ends"]
        assert sum(outcome["ends"].values()) == 12
    assert ends["k1"]["harness_error"] > 0 and set(ends["k1"]) <= {"answered", "harness_error"}
    assert ends["k2"]["timeout"] > 0 and set(ends["k2"]) <= {"answered", "timeout"}
    assert set(ends["k3"]) == {"answered"}, "no innocent rollout is charged"


def test_a_broken_off_round_goes_on_under_changed_parameters(
    edited: RunRepository, copy: Copy
) -> None:
    """What is archived stays; the same is used again, what differs takes the next free name."""
    run = copy(edited)
    run.ok("coevo", "stage", "inherit")
    before = {ref: oid for ref, oid in run.refs().items() if ref.startswith("refs/heads/evo/")}
    del before["refs/heads/evo/evolution"]
    known = params(run)
    run.set_params(
        offspring=4,
        editors={"kind": "scripted:FAULTY"},
        limits={"wall_s": 3},
        inheritance=known["inheritance"] | {"density": 0.9, "shortlist": 2},
        adaptation=known["adaptation"] | {"samples": 1},
    )
    run.ok("dvc", "repro")
    after = run.refs()
    assert run.round() == 2
    assert before.items() < after.items()
    new = {ref.removeprefix("refs/heads/evo/") for ref in set(after) - set(before)}
    assert {"harness/r002-k1-2", "harness/r002-k2-2", "harness/r002-k3-2"} < new
    assert "refs/coevo/evo/rejected/r002-k4" in new, "a duplicate of the third"
    assert {"checkpoint/r002-m2", "checkpoint/r002-sft", "pair/r002-adapted"} < new
    reached = set(run.ok("git", "log", "--format=%H", "evo/evolution").split())
    assert set(before.values()) < reached, "what the first try left belongs to the round, too"
    run.sound()
