"""baseline, trajectories: RL for comparison, and what each method sampled and trained on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from engine.adaptation import counts as counting
from engine.adaptation.swift import baseline as baselines
from engine.adaptation.swift.command import model_type
from engine.adaptation.swift.grpo import POLICIES, Place, Settings
from engine.cli.options import context_here, json_option, print_json, run_option
from engine.context import require_started


@click.command()
@click.argument("method", type=click.Choice(list(POLICIES)))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to.  [default: .coevo/baselines/METHOD]"
)
@click.option("--swift", default="swift", show_default=True, help="ms-swift's program.")
@run_option
def baseline(method: str, out: Path | None, swift: str, run: str | None) -> None:
    """Write what ms-swift needs for RL under the run's initial harness (paper, table 9).

    The folder gets rollout.sh (the policy's server, which plays episodes through the kernel) and
    train.sh, the training tasks, the harness, and a plugin. It holds labels: keep it out of git.

    \b
    coevo baseline grpo
    sh .coevo/baselines/grpo/rollout.sh & sh .coevo/baselines/grpo/train.sh
    """
    context = context_here(run, quiet=True)
    require_started(context)
    pair = context.archive.pair(context.archive.round("r000").incumbent)
    agent = context.agent(pair.harness, pair.checkpoint)
    folder = (out or context.root / ".coevo" / "baselines" / method).resolve()
    params, settings = context.params, Settings()
    place = Place(
        agent.folder.resolve(),
        folder,
        model_type(agent.folder),
        context.limits().turns,
        params.seed,
    )
    text = (context.root / "params.yaml").read_text("utf-8")
    tasks = context.tasks("train")
    baselines.write(place, method, swift, tasks, agent.files, text, settings)
    click.echo(
        f"{folder}: {len(tasks)} tasks, {settings.steps(len(tasks)):,} steps, "
        f"{settings.sampled(len(tasks)):,} rollouts; next: sh {folder}/rollout.sh & "
        f"sh {folder}/train.sh"
    )


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, file_okay=False))
@run_option
@json_option
def trajectories(folders: tuple[Path, ...], run: str | None, as_json: bool) -> None:
    """How many trajectories this run and the baselines in FOLDERS sampled and trained on (table 8).

    \b
    coevo trajectories .coevo/baselines/grpo .coevo/baselines/gspo
    """
    context = context_here(run, quiet=True)
    rows = [counting.of_run(context.archive, context.params.run)]
    rows += [counting.of_baseline(folder) for folder in folders]
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    click.echo(f"{'method':<16}{'sampled':>10}{'trained on':>12}{'planned':>10}")
    for row in rows:
        planned = "" if row.planned is None else f"{row.planned:,}"
        click.echo(f"{row.method:<16}{row.sampled:>10,}{row.trained:>12,}{planned:>10}")


COMMANDS = (baseline, trajectories)
