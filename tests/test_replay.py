"""Replay and test measure a pair as its round did, on the machine of today."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from runs import RunRepository

from engine.context import Context, open_context
from engine.observer import Silent
from engine.params import load
from engine.replaying import Replay, as_of, replay
from engine.statistics import Difference, paired_bootstrap


def opened(run: RunRepository) -> Context:
    return open_context(run.folder, load(run.folder / "params.yaml"), Silent())


def elsewhere(run: RunRepository) -> Context:
    """Other parameters of the evaluation, another machine's sandbox and server."""
    serving = yaml.safe_load((run.folder / "params.yaml").read_text())["serving"]
    run.set_params(
        seed=5,
        executions=3,
        limits={"turns": 3},
        sampling={"max_tokens": 7},
        sandbox="none",
        serving=serving
        | {"backend": "scripted:OtherServer", "reproducible": True, "api_key_env": "OTHER_KEY"},
    )
    return opened(run)


def test_only_what_was_measured_comes_from_the_archived_round(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    then = opened(run).params
    context = elsewhere(run)
    made, now = as_of(context, 1).params, context.params
    for name in ("domain", "seed", "executions", "sampling", "limits"):
        assert getattr(made, name) == getattr(then, name)
    assert made.sandbox == "none"
    assert made.serving == now.serving.model_copy(update={"reproducible": False})
    assert as_of(context, 2).params == now, "a round that isn't archived has no others"
    replayed = asyncio.run(replay(context, context.archive.pairs()[0].oid))
    assert replayed.equal and replayed.confirmed and replayed.changed == ("backend",)


def test_an_unlike_replay_is_confirmed_within_noise_only_where_serving_is_not_reproducible(
    one_round: RunRepository,
) -> None:
    context = opened(one_round)
    outcome = context.outcome(context.archive.pairs()[0])
    noise = {f"t{i}": (1.0, 1.0) for i in range(9)} | {"t9": (1.0, 0.0)}
    clear = {f"t{i}": (1.0, 0.0) for i in range(10)}

    def made(tasks: dict[str, tuple[float, float]], reproducible: bool) -> Replay:
        difference: Difference = paired_bootstrap(*zip(*tasks.values(), strict=True))
        return Replay("p", "n", outcome, outcome, tasks, difference, reproducible, ())

    assert made(noise, reproducible=False).confirmed
    assert not made(noise, reproducible=True).confirmed
    assert not made(clear, reproducible=False).confirmed
    assert made({"t": (1.0, 1.0)}, reproducible=True).confirmed


def test_a_test_commit_says_its_score_and_all_executions_count(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    run.set_params(executions=2)
    for stage in ("open", "observe"):
        run.ok("coevo", "stage", stage)
    tested = json.loads(run.ok("coevo", "test", "r002-incumbent", "--json"))
    outcome, seed = tested["outcome"], tested["seed"]
    assert {len(scores) for scores in outcome["by_task"].values()} == {2}
    assert tested["difference"]["mean"] == pytest.approx(outcome["score"] - seed["score"])
    form = "%(trailers:key=Coevo-Score,valueonly)%(trailers:key=Coevo-Eval-Key,valueonly)"
    score, key = run.ok("git", "log", "-1", f"--format={form}", tested["commit"]).split()
    assert float(score) == pytest.approx(outcome["score"], abs=1e-6)
    assert key == outcome["eval_key"]
    kept = json.loads(run.ok("git", "show", f"{tested['commit']}:outcome.json"))
    assert kept["seed_pair"]["pair"] == tested["seed_pair"]
    assert kept["seed_pair"]["score"] == seed["score"]
