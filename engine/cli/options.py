"""Options that commands share."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec

import click

from engine.context import Context, open_context
from engine.observer import Observer, Silent, Terminal
from engine.params import find_root, load

P = ParamSpec("P")


def json_option(function: Callable[P, None]) -> Callable[P, None]:
    """``--json``: facts for scripts, on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")(function)


def run_option(function: Callable[P, None]) -> Callable[P, None]:
    """``--run NAME``: another run of this repository than params.yaml names."""

    @click.option("--run", "run", metavar="NAME", help="A run other than params.yaml's.")
    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        function(*args, **kwargs)

    return wrapped


def context_here(run: str | None = None, *, quiet: bool = False) -> Context:
    """The run repository that holds the current folder."""
    root = find_root(Path.cwd())
    params = load(root / "params.yaml")
    if run:
        params = params.model_copy(update={"run": run})
    observer: Observer = Silent() if quiet else Terminal()
    return open_context(root, params, observer)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))
