"""score: predictions against a domain's labelled files, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.cli.options import json_option, print_json
from engine.domains.smart_home.offline import score as score_smart_home


@click.group()
def score() -> None:
    """Score a predictions file against a domain's labelled data; nothing is run."""


@score.command("smart_home")
@click.option("--data", required=True, type=click.Path(path_type=Path), help="HomeBench's folder.")
@click.option(
    "--predictions",
    required=True,
    type=click.Path(path_type=Path),
    help='JSON lines {"id": …, "commands": "{…}"}; a missing id counts as empty.',
)
@click.option(
    "--gold",
    type=click.Path(path_type=Path),
    help="The labelled file, instead of the folder's *.jsonl (pools apart).",
)
@json_option
def smart_home(data: Path, predictions: Path, gold: Path | None, as_json: bool) -> None:
    """Success and F1 by HomeBench's official counting, in all and by subset.

    \b
    coevo score smart_home --data ~/homebench --predictions answers.jsonl --json
    """
    report = score_smart_home(data, predictions, gold).to_json()
    if as_json:
        print_json(report)
        return
    _line("all", report)
    for name, figures in report["by_subset"].items():
        _line(name, figures)
    if "unflagged" in report:
        _line("unflagged", report["unflagged"])


def _line(name: str, figures: dict[str, Any]) -> None:
    click.echo(
        f"{name:<10} n {figures['n']:>6}  success {figures['success']:.4f}   f1 {figures['f1']:.4f}"
    )


COMMANDS = (score,)
