"""score: predictions against a domain's labelled files, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec

import click

from engine.cli.options import json_option, print_json
from engine.domains.attribution.filters import FILTERS
from engine.domains.attribution.offline import score as score_attribution
from engine.domains.rbac_sql.offline import score as score_rbac_sql
from engine.domains.smart_home.offline import score as score_smart_home

P = ParamSpec("P")
Command = Callable[P, None]


def files_options(data: str, predictions: str) -> Callable[[Command[P]], Command[P]]:
    """``--data`` and ``--predictions``, with what they must hold."""
    path = click.Path(path_type=Path)

    def with_files(function: Command[P]) -> Command[P]:
        given = click.option("--predictions", required=True, type=path, help=predictions)(function)
        return click.option("--data", required=True, type=path, help=data)(given)

    return with_files


def skipping_option(function: Command[P]) -> Command[P]:
    """``--skip-bad-rows``."""
    text = "Count and list malformed rows, and go on."
    return click.option("--skip-bad-rows", is_flag=True, help=text)(function)


@click.group()
def score() -> None:
    """Score a predictions file against a domain's labelled data; nothing is run."""


@score.command("smart_home")
@files_options(
    "HomeBench's folder.",
    'JSON lines {"id": …, "commands": "{…}"}; a missing id counts as empty.',
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


@score.command("rbac_sql")
@files_options(
    "Folder with items.jsonl, policies.json and databases/.",
    'JSON lines {"id": …, "access_granted": true, "sql": "…"}; a missing id is unanswered. '
    '"route": "rule" or "llm" in every line gives the rates of rules and model.',
)
@click.option("--all", "everything", is_flag=True, help="Items without a checked database too.")
@skipping_option
@json_option
def rbac_sql(
    data: Path, predictions: Path, everything: bool, skip_bad_rows: bool, as_json: bool
) -> None:
    """Safe-EX, AC-F1, Safe-Deny, violations and refusals, outcome by outcome.

    \b
    coevo score rbac_sql --data ~/spider_rbac --predictions answers.jsonl --json
    """
    found = score_rbac_sql(data, predictions, everything=everything, skip_bad_rows=skip_bad_rows)
    report = _listed(found.to_json(), found.skipped, skip_bad_rows)
    if as_json:
        print_json(report)
        return
    for name, value in report.items():
        if name == "outcomes":
            value = ", ".join(f"{outcome} {count}" for outcome, count in value.items())
        shown = f"{value:.4f}" if isinstance(value, float) else "n/a" if value is None else value
        click.echo(f"{name:<18} {shown}")


@score.command("attribution")
@files_options(
    "Folder with Who&When, TracerTraj-Code or both.",
    'JSON lines {"id": "Hand-Crafted/12", "agent": …, "step": 12}; a missing id is wrong.',
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    type=click.Choice(FILTERS),
    help="Leave out logs that the paper's training filter drops, and count them.",
)
@skipping_option
@json_option
def attribution(
    data: Path, predictions: Path, filters: tuple[str, ...], skip_bad_rows: bool, as_json: bool
) -> None:
    """Agent and step accuracy, in all and by subset, and the official substring figures.

    \b
    coevo score attribution --data ~/who_and_when --predictions answers.jsonl --json
    """
    found = score_attribution(data, predictions, filters=filters, skip_bad_rows=skip_bad_rows)
    report = _listed(found.to_json(), found.skipped, skip_bad_rows)
    if as_json:
        print_json(report)
        return
    for name, figures in {"all": report, **report["by_source"]}.items():
        _accuracies(name, figures)
    for name, count in report.get("dropped", {}).items():
        click.echo(f"left out by {name}: {count}")


def _listed(report: dict[str, Any], skipped: Sequence[str], skip_bad_rows: bool) -> dict[str, Any]:
    """The report with the number of malformed rows, which are listed on stderr."""
    for line in skipped:
        click.echo(f"skipped: {line}", err=True)
    return {**report, "skipped": len(skipped)} if skip_bad_rows else report


def _accuracies(name: str, figures: dict[str, Any]) -> None:
    official = figures["official"]
    click.echo(
        f"{name:<20} n {figures['n']:>5}  agent {figures['agent_accuracy']:.4f}  "
        f"step {figures['step_accuracy']:.4f}  objective {figures['objective']:.4f}  "
        f"official {official['agent_accuracy']:.4f} {official['step_accuracy']:.4f}"
    )


def _line(name: str, figures: dict[str, Any]) -> None:
    click.echo(
        f"{name:<10} n {figures['n']:>6}  success {figures['success']:.4f}   f1 {figures['f1']:.4f}"
    )


COMMANDS = (score,)
