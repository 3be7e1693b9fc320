"""init, run, stage, status: making a run repository and running rounds in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from engine.cli.options import context_here, json_option, print_json, run_option
from engine.cli.summary import render, summary
from engine.context import require_started
from engine.errors import CoevoError
from engine.observer import Terminal
from engine.params import child_environment, find_root, load
from engine.pipeline import mend
from engine.presets import NAMES, default_domain
from engine.repository import init_repository
from engine.round import STAGES, run_stage


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--domain", show_default="smart_home, or what the preset is for", help="The task domain."
)
@click.option("--data", type=click.Path(path_type=Path), help="Real files of the domain.")
@click.option("--run", "run", default="evo", show_default=True, help="Name of the run.")
@click.option(
    "--preset",
    default="small",
    show_default=True,
    type=click.Choice(NAMES),
    help="Starting values of params.yaml: for two CPU cores, or a paper's.",
)
def init(folder: Path, domain: str | None, data: Path | None, run: str, preset: str) -> None:
    """Make a fresh run repository in FOLDER: git, DVC, params.yaml, dvc.yaml.

    \b
    coevo init my-agent --data ~/homebench
    cd my-agent && dvc repro
    """
    init_repository(folder, domain or default_domain(preset), data, run, preset)
    click.echo(f"made a run repository in {folder}; next: cd {folder} && dvc repro")


@click.command("run")
@click.option(
    "--rounds", default=1, show_default=True, type=click.IntRange(min=1), help="How many rounds."
)
def run_command(rounds: int) -> None:
    """Run `dvc repro` ROUNDS times: one round each, the first resuming one that broke off.

    \b
    coevo run --rounds 3
    """
    root = find_root(Path.cwd())
    load(root / "params.yaml")
    for path, problem in mend(root).items():
        click.echo(f"removed {path} ({problem})", err=True)
    for number in range(1, rounds + 1):
        click.echo(f"dvc repro ({number} of {rounds})", err=True)
        code = repro(root)
        if code:
            raise CoevoError(
                f"`dvc repro` stopped with exit code {code}: its message is above; what had "
                "finished is kept, and the same command goes on from there"
            )
    click.echo(render(summary(context_here(quiet=True))), nl=False)


def repro(root: Path) -> int:
    """One `dvc repro`, with this interpreter's own commands first on the PATH."""
    bin_folder = Path(sys.executable).parent
    path = f"{bin_folder}:{child_environment().get('PATH', '')}"
    return subprocess.run(
        [sys.executable, "-m", "dvc", "repro", "--quiet"],
        cwd=root,
        env=child_environment(PATH=path),
        check=False,
    ).returncode


@click.command()
@click.argument("name", type=click.Choice(list(STAGES)))
def stage(name: str) -> None:
    """Run one stage of the round, as dvc.yaml does.

    \b
    coevo stage observe
    """
    run_stage(find_root(Path.cwd()), name, Terminal())


@click.command()
@run_option
@json_option
def status(run: str | None, as_json: bool) -> None:
    """What the last round did, why, what it cost, and what to type next.

    \b
    coevo status --json
    """
    context = context_here(run, quiet=True)
    require_started(context)
    facts = summary(context)
    if as_json:
        print_json(facts)
    else:
        click.echo(render(facts), nl=False)


COMMANDS = (init, run_command, stage, status)
