"""push, pull, gc: a run's data and branches sent on, fetched, and freed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from engine.cli.history import pairs_of
from engine.cli.options import context_here, json_option, print_json, run_option
from engine.collecting import Garbage, collect, free
from engine.context import Context, require_started
from engine.disk import size_text
from engine.errors import ConfigError
from engine.hub.client import Hub
from engine.hub.fetching import Fetched, fetch_agent, fetch_weights, published_here
from engine.hub.publishing import promoted, publish
from engine.pushing import Moved, fetch_data, fetch_refs, push_refs
from engine.pushing import push as push_run

hub_option = click.option("--hub", "hub", metavar="ORG/NAME", help="A model repository of the Hub.")


@click.command()
@click.argument("git_remote", required=False)
@hub_option
@run_option
@json_option
def push(git_remote: str | None, hub: str | None, run: str | None, as_json: bool) -> None:
    """Push the run's data to the default DVC remote, then with --hub each pair that held the title
    to the Hub (one tagged revision each), then the branches to GIT_REMOTE if named. What is there
    already isn't sent again; broken off, the same command goes on.

    \b
    dvc remote add --default shared s3://bucket/path
    coevo push origin
    coevo push origin --hub my-org/my-agent
    """
    context = context_here(run, quiet=as_json)
    require_started(context)
    with context.archive.lock():
        done, published = _push(context, git_remote, _hub(hub, as_json) if hub else None)
    if as_json:
        print_json({**asdict(done), "hub": [asdict(each) for each in published]})
        return
    click.echo(
        f"{done.objects} objects pushed to the DVC remote; refs: {', '.join(done.refs) or '-'}"
    )
    for each in published:
        click.echo(f"{each.label}  {hub}@{each.tag}  {'sent' if each.new else 'was there'}")


def _push(context: Context, git_remote: str | None, hub: Hub | None) -> tuple[Moved, list[Any]]:
    """The Hub's permission first: it costs nothing. Branches last: they carry its revisions."""
    if hub is None:
        return push_run(context, git_remote), []
    hub.require_writing()
    if context.dvc.has_remote:
        objects = push_run(context, None).objects
    else:
        context.observer.say(
            "no DVC remote: splits and rollouts stay here, so clones can't replay (`dvc remote add "
            "--default NAME URL`)"
        )
        objects = 0
    published = publish(context, hub)
    return Moved(objects, push_refs(context, git_remote) if git_remote else ()), published


@click.command()
@click.argument("git_remote", required=False)
@hub_option
@click.option("--pair", "pairs", metavar="COMMIT", multiple=True, help="Its data; repeatable.")
@click.option("--all", "everything", is_flag=True, help="All data of the run.")
@click.option("--revision", metavar="TAG", help="Of the Hub; its newest pair by default.")
@click.option("--to", "folder", type=click.Path(path_type=Path), help="An agent there, by --hub.")
@run_option
@json_option
def pull(
    git_remote: str | None,
    hub: str | None,
    pairs: tuple[str, ...],
    everything: bool,
    revision: str | None,
    folder: Path | None,
    run: str | None,
    as_json: bool,
) -> None:
    """Fetch the run's branches from GIT_REMOTE, then the data that a replay needs (frozen splits,
    the weights of the incumbent or of each --pair) from the default DVC remote, or with --hub the
    weights from the Hub. With --hub and --to: one agent, ready to run, outside any repository.

    \b
    coevo pull origin
    coevo pull --hub my-org/my-agent --pair evo/evolution
    coevo pull --hub my-org/my-agent --to my-agent
    """
    if (folder or revision) and not hub:
        raise ConfigError("--to and --revision are of the Hub: name it too, --hub ORG/NAME")
    place = _hub(hub, as_json) if hub else None
    if place and folder:
        _say_fetched([fetch_agent(place, revision, folder)], as_json)
        return
    context = context_here(run, quiet=as_json)
    with context.archive.lock():
        fetched = fetch_refs(context, git_remote) if git_remote else ()
        require_started(context)
        if place:
            _say_fetched(_from_hub(context, place, pairs, everything, revision), as_json)
            return
        wanted = pairs or (context.archive.rounds(limit=1)[0].incumbent,)
        chosen = [context.archive.pair(oid) for name in wanted for oid in pairs_of(context, name)]
        objects = fetch_data(context, None if everything else chosen)
    if as_json:
        print_json(asdict(Moved(objects, fetched)))
    else:
        click.echo(f"{objects} objects came from the DVC remote; refs: {', '.join(fetched) or '-'}")


def _from_hub(
    context: Context, hub: Hub, pairs: tuple[str, ...], everything: bool, revision: str | None
) -> list[Fetched]:
    if everything:
        chosen = [pair for pair, _ in promoted(context)]
    elif pairs:
        named = [oid for name in pairs for oid in pairs_of(context, name)]
        chosen = [context.archive.pair(oid) for oid in named]
    else:
        chosen = [published_here(context, hub, revision)]
    return [fetch_weights(context, hub, pair) for pair in chosen]


def _say_fetched(fetched: list[Fetched], as_json: bool) -> None:
    if as_json:
        print_json([asdict(each) for each in fetched])
        return
    for each in fetched:
        click.echo(f"{each.label}  {each.folder}  (weights {each.weights[:12]}, verified)")


def _hub(repo: str, quiet: bool) -> Hub:
    return Hub(repo, quiet or not sys.stderr.isatty())


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be freed.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option(
    "--with",
    "others",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Another repository that uses this cache; its refs count too. Repeatable.",
)
@click.option("--alone", is_flag=True, help="No other repository uses a cache outside this one.")
@run_option
@json_option
def gc(
    dry_run: bool, yes: bool, others: tuple[Path, ...], alone: bool, run: str | None, as_json: bool
) -> None:
    """Free DVC's cache, and the working copies of weights, of what no ref of this repository needs
    (any branch, tag, hidden ref, worktree or file of the work tree counts). Says first what it will
    free, then asks. Remotes and git's objects aren't touched.

    \b
    coevo gc --dry-run
    coevo gc --yes
    """
    context = context_here(run, quiet=as_json)
    if as_json and not (yes or dry_run):
        raise ConfigError("gc --json can't ask: add --dry-run, or --yes to free")
    with context.archive.lock():
        found = collect(context.root, others, alone)
        if not as_json:
            _say_garbage(found)
        go = bool(found.paths) and not dry_run
        if go and not yes:
            go = click.confirm("free it?")
        if go:
            free(found)
    if as_json:
        print_json({**found.figures(), "freed": go})
    elif go:
        click.echo(f"freed {size_text(found.bytes)}")


def _say_garbage(found: Garbage) -> None:
    click.echo(f"kept: {found.kept} objects, {size_text(found.kept_bytes)}, that refs need")
    for path, size in found.largest():
        click.echo(f"  {size_text(size):>10}  {path}")
    click.echo(f"to free: {len(found.paths)} objects and copies, {size_text(found.bytes)}")


COMMANDS = (push, pull, gc)
