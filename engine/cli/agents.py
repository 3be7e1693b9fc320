"""replay, test, use: archived pairs run again, tested, checked out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from engine.agent import check_out
from engine.cli.history import pair_of, pairs_of
from engine.cli.options import context_here, json_option, print_json, run_option
from engine.measurement import as_json as record_json
from engine.replaying import Replay
from engine.replaying import replay as replay_pair
from engine.statistics import Difference
from engine.testing import test_pair


@click.command()
@click.argument("commit")
@run_option
@json_option
def replay(commit: str, run: str | None, as_json: bool) -> None:
    """Run a pair again from its commit and compare, task by task (a round stands for its incumbent,
    a harness for all its pairs; its JSON is a list). Exit code 0 where the two are equal or, unless
    serving is reproducible, the difference's interval holds zero.

    \b
    coevo replay evo/evolution
    """
    context = context_here(run, quiet=as_json)
    with context.archive.lock():
        pairs = pairs_of(context, commit)
        results = [asyncio.run(replay_pair(context, pair)) for pair in pairs]
    if as_json:
        facts = [{**record_json(result), "equal": result.equal} for result in results]
        print_json(facts if context.archive.resolve(commit).kind == "harness" else facts[0])
    else:
        for result in results:
            _show(result)
    if not all(result.confirmed for result in results):
        raise SystemExit(1)


def _show(result: Replay) -> None:
    for name, (recorded, new) in result.tasks.items():
        click.echo(f"{name}  {recorded:.3f}  {new:.3f}" + ("" if recorded == new else "  *"))
    click.echo(
        f"{result.name}: recorded {result.recorded.score:.3f}, new {result.new.score:.3f}; "
        + ("equal task by task" if result.equal else _interval(result.difference))
    )
    if result.changed:
        click.echo(f"not measured alike: {', '.join(result.changed)} changed since")


@click.command()
@click.argument("commit")
@run_option
@json_option
def test(commit: str, run: str | None, as_json: bool) -> None:
    """Measure a pair, and the seed pair beside it, on the test split, with a paired interval.
    Each use is archived under refs/coevo/RUN/test, which no round reads.

    \b
    coevo test evo/evolution
    """
    context = context_here(run, quiet=as_json)
    with context.archive.lock():
        result = asyncio.run(test_pair(context, pair_of(context, commit)))
    if as_json:
        print_json(record_json(result))
        return
    click.echo(
        f"seed pair {result.seed.score:.3f}, this pair {result.outcome.score:.3f} on "
        f"{result.outcome.tasks} test tasks; {_interval(result.difference)}"
    )
    for name, value in result.outcome.metrics.items():
        click.echo(f"  {name:<14} {result.seed.metrics.get(name, float('nan')):.3f} -> {value:.3f}")


def _interval(difference: Difference) -> str:
    return (
        f"difference {difference.mean:+.3f} "
        f"({difference.level:.0%} paired bootstrap {difference.low:+.3f} to {difference.high:+.3f})"
    )


@click.command()
@click.argument("commit")
@click.argument("folder", type=click.Path(path_type=Path))
@run_option
def use(commit: str, folder: Path, run: str | None) -> None:
    """Check an agent out into FOLDER: harness, checkpoint, and a run.sh that serves it and answers
    one instruction.

    \b
    coevo use evo/evolution my-agent
    my-agent/run.sh "Turn on the light in the kitchen."
    """
    context = context_here(run)
    check_out(context, pair_of(context, commit), folder)
    click.echo(f'made {folder}; next: {folder}/run.sh "AN INSTRUCTION"')


COMMANDS = (replay, test, use)
