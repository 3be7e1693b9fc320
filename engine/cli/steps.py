"""Iterations of self-evolution as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from engine.cli.options import print_json
from engine.self_evolution.history import Step

_LONGEST = 200
"""Of a reason: its beginning says which check, its end what a traceback came to."""


def print_steps(steps: Sequence[Step], as_json: bool) -> None:
    """``coevo log`` of a run in mode self."""
    if as_json:
        print_json([asdict(step) for step in steps])
        return
    several = len({step.lineage for step in steps if step.iteration}) > 1
    for step in steps:
        click.echo(line(step, several))
    click.echo(
        "\n* held the title. Columns: iteration, harness, name, lines of Python, added of budget, "
        "batch, score there"
    )


def line(step: Step, several: bool = False) -> str:
    """One iteration of a lineage in a line."""
    mark = "*" if step.title else " "
    added = "" if step.added is None else f"+{step.added}/{step.budget}"
    lineage = f" {step.lineage}" if several else ""
    return (
        f"{mark} {step.iteration}{lineage} {step.harness[:10]} {step.name:<10} {step.lines:>5} "
        f"{added:>9}  {step.batch} {scores(step)}  {_outcome(step)}"
    )


def scores(step: Step) -> str:
    """The score on the batch, with new tasks and anchors apart where it has both."""
    if step.new is None or step.anchors is None:
        return f"{step.score:.3f}"
    return f"{step.score:.3f} (new {step.new:.3f}, anchors {step.anchors:.3f})"


def _outcome(step: Step) -> str:
    """What came of it, on one line."""
    if not step.iteration:
        return step.why
    said = " ".join(step.why.split())
    if step.accepted:
        repaired = " after repair" if step.repaired else ""
        said = f"accepted{repaired}: {step.subject}"
    return (
        said if len(said) <= _LONGEST else f"{said[: _LONGEST // 2]} ... {said[-_LONGEST // 2 :]}"
    )
