"""evaluate: frozen versions on held-out and out-of-distribution tasks."""

from __future__ import annotations

import asyncio

import click

from engine.cli.history import pair_of
from engine.cli.options import context_here, json_option, print_json, run_option
from engine.context import Context, require_started
from engine.self_evolution.evaluation import (
    Version,
    evaluate_versions,
    facts,
    iterations,
    usual_versions,
)
from engine.self_evolution.table import tables
from engine.solvers.agents import AGENTS


@click.command()
@click.argument("commits", nargs=-1, metavar="[COMMIT]...")
@click.option(
    "--repeats",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Executions of each task; their mean counts.",
)
@click.option(
    "--split",
    default="test",
    show_default=True,
    type=click.Choice(["test", "validation"]),
    help="test has the held-out tasks and, where a domain has them, the out-of-distribution ones.",
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    type=click.Choice(tuple(AGENTS)),
    help="An outside coding agent beside the versions, on the same tasks: Codex CLI, or the "
    "command of editors.command. It asks the model of llm.* in a sandbox.",
)
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
@run_option
@json_option
def evaluate(
    commits: tuple[str, ...],
    repeats: int,
    split: str,
    agents: tuple[str, ...],
    markdown: bool,
    run: str | None,
    as_json: bool,
) -> None:
    """Measure frozen versions side by side: scores by family with intervals, averages that weigh
    families equally, how often mechanisms were triggered, how rollouts ended, lines of code.
    COMMITs are harnesses, pairs or rounds; none: the seed and the end of each stage. Each is
    archived under refs/coevo/RUN/evaluation, which no round reads; an audit's confirmed rollouts
    score 0.

    \b
    coevo evaluate --repeats 3
    coevo evaluate r000-seed evo/evolution --repeats 2 --agent codex --markdown
    """
    context = context_here(run, quiet=as_json)
    require_started(context)
    with context.archive.lock():
        versions = [_version(context, text) for text in commits] or usual_versions(context)
        versions += [Version(agent, versions[0].pair, agent) for agent in agents]
        done = asyncio.run(evaluate_versions(context, versions, split, repeats))
    if as_json:
        print_json(facts(context, done, split))
        return
    for table in tables(done, iterations(context)):
        click.echo(table.markdown() if markdown else table.text())
    for each in done:
        click.echo(f"{each.version.label}: evaluation commit {each.commit[:12]}")


def _version(context: Context, text: str) -> Version:
    pair = pair_of(context, text)
    return Version(context.archive.harness(context.archive.pair(pair).harness).label, pair)


COMMANDS = (evaluate,)
