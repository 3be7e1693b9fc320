"""The adapt stage: what runs when, what is counted, and what it costs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import yaml
from runs import RunRepository

from engine.context import open_context
from engine.observer import Silent
from engine.params import load
from engine.records import Rollout


class Listening(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def test_the_server_stops_before_training_and_everything_has_its_cost(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    params = yaml.safe_load((run.folder / "params.yaml").read_text())
    run.set_params(adaptation=params["adaptation"] | {"trainer": "scripted:train_but_one"})
    for stage in ("open", "observe", "curate", "edit", "inherit"):
        run.ok("coevo", "stage", stage)
    said = run.run("coevo", "stage", "adapt").stderr
    steps = re.findall(r"starting the|sampling|SFT on|adapted pair", said)
    assert steps == ["starting the", "sampling", "SFT on", "starting the", "adapted pair"], said
    records = run.folder / "round"
    adapted = json.loads((records / "adapted.json").read_bytes())
    made = json.loads(run.ok("coevo", "show", "r002-sft", "--json"))["provenance"]
    [samples] = re.findall(r"SFT on (\d+)", said)
    assert adapted["trained"] == made["trained"] == int(samples) - 1 and made["skipped"] == 1
    assert adapted["cost"]["seconds"] > 0.3, "the training's own time counts"
    assert json.loads((records / "candidates.json").read_bytes())["cost"]["seconds"] > 0.2
    cost = json.loads((records / "feedback.json").read_bytes())["cost"]
    assert (cost["rollouts"], cost["cached"]) == (0, 12)
    first = json.loads(run.ok("coevo", "show", "r000", "--json"))["costs"]
    assert first["rollouts"] == 12 and first["seconds"] > 0


def test_sampling_that_is_journalled_starts_no_server(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    listening = Listening()
    context = open_context(run.folder, load(run.folder / "params.yaml"), listening)
    pair = context.archive.pairs()[0]

    async def sampled() -> tuple[list[list[Rollout]], int]:
        async with context.scheduler() as scheduler:
            agent = context.agent(pair.harness, pair.checkpoint)
            setting = context.setting("train", context.params.adaptation.sampling)
            tasks = context.tasks("train")[:4]
            rollouts = await scheduler.until_accepted(agent, tasks, setting, 2, "sampling")
            return rollouts, scheduler.cost.rollouts

    first, ran = asyncio.run(sampled())
    starts = len(listening.said)
    again, ran_again = asyncio.run(sampled())
    assert (ran > 0, starts) == (True, 1)
    assert (ran_again, len(listening.said)) == (0, 1)
    assert first == again
