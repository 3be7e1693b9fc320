"""data: a run's splits, looked at by a person before or after round 0 freezes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import click

from engine.cli.options import context_here, json_option, print_json, run_option
from engine.data_check import DataReport, Shared, check
from engine.errors import DataError


@click.group()
def data() -> None:
    """Look at the tasks of a run."""


@data.command("check")
@click.option(
    "--skip-bad-rows",
    is_flag=True,
    help="Leave malformed rows out and list them, as skip_bad_rows: true in params.yaml does.",
)
@run_option
@json_option
def check_command(skip_bad_rows: bool, run: str | None, as_json: bool) -> None:
    """Whether the splits of params.yaml are disjoint: tasks and strata of each, ids, contents or
    groups that stand in two, near duplicates. Exit code 3 where they overlap; near duplicates are
    a warning. Of the test split only figures are shown.

    \b
    coevo data check --json
    """
    context = context_here(run, quiet=True)
    if skip_bad_rows:
        params = context.params.model_copy(update={"skip_bad_rows": True})
        context = replace(context, params=params)
    found = check(context)
    if as_json:
        print_json({**asdict(found), "disjoint": found.disjoint})
    else:
        _print(found)
    if not found.disjoint:
        raise SystemExit(DataError.exit_code)


def _print(found: DataReport) -> None:
    state = "frozen by round 0" if found.frozen else "as round 0 would make them"
    click.echo(f"domain {found.domain}, tasks from {found.source}, {state}")
    for name, facts in found.splits.items():
        click.echo(f"{name:<10} {facts.tasks:>6} tasks")
        for key, values in facts.strata.items():
            counts = ", ".join(f"{value} {count}" for value, count in values.items())
            click.echo(f"           {key}: {counts}")
        again = {kind: count for kind, count in facts.repeats.items() if count}
        if again:
            counts = ", ".join(f"{kind} {count}" for kind, count in again.items())
            click.echo(f"           repeated within the split: {counts}")
        if facts.incomparable:
            click.echo(f"           {facts.incomparable} have a digest for content: not compared")
    _rows(f"{found.skipped} malformed rows are skipped", found.skipped, found.skipped_rows)
    _rows(
        f"{found.left_out} rows are left out by the domain's filters",
        found.left_out,
        found.left_out_rows,
    )
    _list("OVERLAP", found.overlaps)
    _list(f"near (Jaccard index of word shingles >= {found.near_threshold})", found.near)
    click.echo("the splits are disjoint" if found.disjoint else "the splits are NOT disjoint")


def _rows(title: str, count: int, rows: Sequence[str]) -> None:
    if count:
        click.echo(title)
    for row in rows:
        click.echo(f"  {row}")


def _list(title: str, shared: Sequence[Shared]) -> None:
    for each in shared:
        first, second = each.splits
        kind = "" if each.kind == "near" else f" by {each.kind}"
        ids = "; ".join(" ~ ".join(pair) for pair in each.examples)
        click.echo(f"{title}: {each.tasks} tasks of {second} with {first}{kind}: e.g. {ids}")


COMMANDS = (data,)
