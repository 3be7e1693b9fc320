"""costs: what calls to language models used, by round and role."""

from __future__ import annotations

from typing import Any

import click

from engine.cli.options import context_here, json_option, print_json, run_option
from engine.llm.usage import Usage
from engine.spending import Spent, of_run

_COLUMNS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "seconds", "usd")
_NOTES = (
    ("unanswered", "got no answer (refused, broken off, or in flight)"),
    ("estimated", "have token counts estimated from bytes"),
    ("unpriced", "ran on a model without a price in llm.prices, so money is too low"),
)


@click.command()
@run_option
@json_option
def costs(run: str | None, as_json: bool) -> None:
    """What the meta-agent's language models used: calls, tokens, seconds, USD by round and role.

    \b
    coevo costs --json
    """
    context = context_here(run, quiet=True)
    facts = _facts(context.params.run, of_run(context))
    if as_json:
        print_json(facts)
    else:
        _show(facts)


def _facts(run: str, spent: Spent) -> dict[str, Any]:
    rows = [{"round": key[0], "role": key[1], **spent[key].figures()} for key in sorted(spent)]
    return {"run": run, "rows": rows, "total": sum(spent.values(), Usage()).figures()}


def _show(facts: dict[str, Any]) -> None:
    total = facts["total"]
    if not facts["rows"]:
        click.echo(f"run {facts['run']} has asked no language model yet")
        return
    heads = [name.replace("_tokens", "") for name in _COLUMNS]
    click.echo(f"{'round':<6}{'role':<13}" + "".join(f"{head:>12}" for head in heads))
    for row in facts["rows"]:
        click.echo(f"{row['round']:<6}{row['role']:<13}{_figures(row)}")
    click.echo(f"{'all':<19}{_figures(total)}")
    for name, said in _NOTES:
        if total[name]:
            click.echo(f"{total[name]} of {total['calls']} calls {said}")


def _figures(row: dict[str, Any]) -> str:
    whole = "".join(f"{row[name]:>12,}" for name in _COLUMNS[:4])
    return f"{whole}{row['seconds']:>12,.1f}{row['usd']:>12,.4f}"


COMMANDS = (costs,)
