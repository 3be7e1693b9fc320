"""solves: one harness on one task, for ``git bisect``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import click

from engine.cli.history import harness_of
from engine.cli.options import context_here, json_option, print_json, run_option
from engine.context import Context, require_started
from engine.errors import ArchiveError, CoevoError
from engine.self_evolution.solving import solve

_ABORT = 128
"""git bisect stops at an exit code above 127, and takes any from 1 to 127 for an answer."""


@click.command()
@click.argument("commit")
@click.argument("task")
@click.option("--checkpoint", help="Another checkpoint than the incumbent's.")
@click.option("--find-fix", is_flag=True, help="Swap 0 and 1: to bisect for what mended a task.")
@run_option
@json_option
def solves(
    commit: str,
    task: str,
    checkpoint: str | None,
    find_fix: bool,
    run: str | None,
    as_json: bool,
) -> None:
    """Whether the harness COMMIT solves TASK (an id under by_task, or a trial's folder name).

    Exit code 0: it does; 1: it doesn't; 128: it can't be told. So git finds the harness that broke
    a task, or with --find-fix the one that mended it, without checking anything out:

    \b
    coevo solves evo/harness/r005-k1 files-3f2a9c
    git bisect start --no-checkout evo/harness/r005-k1 evo/harness/r000-seed
    git bisect run coevo solves --find-fix BISECT_HEAD files-3f2a9c
    """
    try:
        facts = _checked(context_here(run, quiet=True), commit, task, checkpoint)
    except CoevoError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        sys.exit(_ABORT)
    if as_json:
        print_json(facts)
    else:
        verdict = (
            "solves it"
            if facts["solves"]
            else f"doesn't solve it ({facts['failure'] or facts['end']})"
        )
        click.echo(
            f"{facts['name']} {facts['harness'][:10]} {verdict}: score {facts['score']:.3f}, "
            f"{facts['end']} after {facts['turns']} turns"
        )
    if facts["solves"] == find_fix:
        sys.exit(1)


def _checked(context: Context, commit: str, task: str, checkpoint: str | None) -> dict[str, Any]:
    require_started(context)
    archive = context.archive
    harness = harness_of(context, _known_to_git(context, commit))
    title = archive.pair(archive.round("tip").incumbent)
    weights = archive.checkpoint(checkpoint).oid if checkpoint else title.checkpoint
    rollout = asyncio.run(solve(context, harness, weights, task))
    return {
        "harness": harness,
        "name": archive.harness(harness).label,
        "task": rollout.opaque_id,
        "solves": rollout.verdict.accepted,
        "score": rollout.verdict.score,
        "failure": rollout.verdict.failure,
        "end": rollout.trajectory.end,
        "error": rollout.trajectory.error,
        "turns": rollout.trajectory.turns,
    }


def _known_to_git(context: Context, commit: str) -> str:
    """The archive's own names first, then whatever git can parse (BISECT_HEAD, HEAD~2)."""
    try:
        context.archive.resolve(commit)
    except ArchiveError:
        command = ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]
        done = subprocess.run(
            command, cwd=context.root, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() or commit
    return commit


COMMANDS = (solves,)
