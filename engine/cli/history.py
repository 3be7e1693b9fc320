"""log, show, diff, pairs: reading the archive."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import click

from engine.cli.measurements import audit_facts, outside_facts
from engine.cli.options import context_here, json_option, print_json, run_option
from engine.cli.steps import line, print_steps
from engine.cli.summary import pair_facts
from engine.context import Context, require_started
from engine.errors import ArchiveError
from engine.self_evolution.history import python_lines, steps


@click.command()
@click.option(
    "-n", "limit", default=30, show_default=True, help="How many harnesses, newest first."
)
@run_option
@json_option
def log(limit: int, run: str | None, as_json: bool) -> None:
    """The lineage of harnesses with scores, TIMR, adopted designs, promotion; of a run in mode
    self its iterations, with budgets, batch scores, and what was accepted or why not.

    \b
    coevo log -n 50 --json
    """
    context = context_here(run, quiet=True)
    require_started(context)
    if context.params.mode == "self":
        print_steps(steps(context)[-limit:], as_json)
        return
    rows = lineage(context, limit)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        score = "   -  " if row["score"] is None else f"{row['score']:.3f}"
        timr = "   -  " if row["timr"] is None else f"{row['timr']:.3f}"
        mark = {True: "*", False: " "}[row["promoted"]]
        adopted = "".join(f" + {mechanism}" for _, mechanism in row["adopts"])
        base = f" from {row['base_name']}" if row["base"] else ""
        click.echo(
            f"{mark} {row['harness'][:10]} {row['name']:<11} {score} {timr}  "
            f"{row['subject']}{base}{adopted}" + (f"  [{row['check']}]" if row["rejected"] else "")
        )
    click.echo("\n* held the title. Columns: harness, name, best score, its TIMR, what was changed")


def lineage(context: Context, limit: int) -> list[dict[str, Any]]:
    """The newest harnesses with their best outcome on V. Read are the rounds since the oldest of
    them, where alone they can have been measured."""
    archive = context.archive
    entries = archive.harnesses(limit=limit, include_rejected=True)
    since = min((entry.round for entry in entries), default=0)
    pairs = archive.pairs(since=since)
    best: dict[str, Mapping[str, Any]] = {}
    for pair in pairs:
        stands = archive.standing(pair)
        known = best.get(pair.harness)
        if known is None or stands["scalar"] > known["scalar"]:
            best[pair.harness] = stands
    titles = {round_.incumbent for round_ in archive.rounds(since=since)}
    held = {pair.harness for pair in pairs if pair.oid in titles}
    rows = []
    for entry in entries:
        outcome = best.get(entry.oid)
        rows.append(
            {
                "harness": entry.oid,
                "name": entry.label,
                "round": entry.round,
                "subject": entry.subject,
                "base": entry.base,
                "base_name": archive.harness(entry.base).label if entry.base else None,
                "adopts": [(adoption.oid, adoption.mechanism) for adoption in entry.adopts],
                "editor": entry.editor,
                "lines_added": entry.lines_added,
                "check": entry.check,
                "rejected": entry.rejected,
                "score": outcome["score"] if outcome else None,
                "timr": outcome["timr"] if outcome else None,
                "promoted": entry.oid in held,
            }
        )
    return rows


@click.command()
@click.argument("commit")
@run_option
@json_option
def show(commit: str, run: str | None, as_json: bool) -> None:
    """One harness, checkpoint, pair, round, test, evaluation or audit: by hash, prefix or branch.
    A rollout that an audit confirmed as cheating scores 0 here.

    \b
    coevo show evo/harness/r001-k2
    """
    context = context_here(run, quiet=True)
    kind, oid = context.archive.resolve(commit)
    facts = described(context, kind, oid)
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        if isinstance(value, Mapping):
            click.echo(f"{key}:")
            for name, inner in value.items():
                click.echo(f"  {name}: {inner}")
        elif value not in (None, "", [], ()):
            click.echo(f"{key}: {value}")


def described(context: Context, kind: str, oid: str) -> dict[str, Any]:
    """An archived commit as facts, by kind."""
    archive = context.archive
    if kind == "harness":
        harness = archive.harness(oid)
        return {
            "kind": kind,
            "commit": oid,
            "ref": harness.ref,
            "subject": harness.subject,
            "round": harness.round,
            "base": harness.base,
            "adopts": [f"{a.oid} {a.mechanism}" for a in harness.adopts],
            "editor": harness.editor,
            "lines_added": harness.lines_added,
            "line_budget": harness.line_budget,
            "check": harness.check,
            "lines": python_lines(harness.files),
            "files": sorted(harness.files),
        }
    if kind == "checkpoint":
        checkpoint = archive.checkpoint(oid)
        return {
            "kind": kind,
            "commit": oid,
            "ref": checkpoint.ref,
            "subject": checkpoint.subject,
            "round": checkpoint.round,
            "method": checkpoint.method,
            "sources": list(checkpoint.sources),
            "alpha": list(checkpoint.alpha),
            "trained_under": checkpoint.trained_under,
            "weights": checkpoint.weights,
            "provenance": dict(checkpoint.provenance),
        }
    if kind == "pair":
        facts = {**pair_facts(context, oid), "ref": archive.pair(oid).ref}
        return {"kind": kind, **facts, **audit_facts(context, oid)}
    if kind != "round":
        return outside_facts(context, kind, oid)
    done = archive.round(oid)
    return {
        "kind": "round",
        "commit": oid,
        "round": done.round,
        "subject": done.subject,
        "promoted": done.promoted,
        "gain": done.gain,
        **_lineages(context, done.round),
        "incumbent": dict(pair_facts(context, done.incumbent)),
        "costs": dict(done.costs),
    }


def _lineages(context: Context, number: int) -> dict[str, Any]:
    """In self-evolution: what each lineage did in a round."""
    if context.params.mode != "self":
        return {}
    found = [step for step in steps(context, since=number) if step.iteration == number]
    return {"lineages": {step.lineage: line(step).strip() for step in found}}


@click.command()
@click.argument("before")
@click.argument("after")
@run_option
def diff(before: str, after: str, run: str | None) -> None:
    """The code diff of two harnesses (a pair or a round stands for its harness).

    \b
    coevo diff evo/harness/r000-seed evo/harness/r001-k2
    """
    context = context_here(run, quiet=True)
    old, new = (context.archive.harness(harness_of(context, c)).files for c in (before, after))
    for name in sorted(old.keys() | new.keys()):
        a, b = (f.get(name, b"").decode("utf-8", "replace").splitlines(True) for f in (old, new))
        click.echo("".join(difflib.unified_diff(a, b, f"a/{name}", f"b/{name}")), nl=False)


def harness_of(context: Context, commit: str) -> str:
    """The harness that a commit is, or holds."""
    kind, oid = context.archive.resolve(commit)
    if kind == "harness":
        return oid
    if kind == "checkpoint":
        raise ArchiveError(f"{commit}: a checkpoint has no harness; name a harness, pair or round")
    return context.archive.pair(pair_of(context, commit)).harness


def pair_of(context: Context, commit: str) -> str:
    """The pair that a commit is; for a round its incumbent, for a harness its best pair."""
    return max(pairs_of(context, commit), key=lambda pair: context.outcome(pair).scalar)


def pairs_of(context: Context, commit: str) -> list[str]:
    """The pair that a commit is; for a round its incumbent, for a harness all its pairs."""
    kind, oid = context.archive.resolve(commit)
    if kind == "pair":
        return [oid]
    if kind == "round":
        return [context.archive.round(oid).incumbent]
    own = context.archive.pairs(harness=oid) if kind == "harness" else []
    if own:
        return [pair.oid for pair in own]
    raise ArchiveError(f"{commit}: a {kind} with no measured pair; `coevo pairs` lists the pairs")


@click.command()
@run_option
@json_option
def pairs(run: str | None, as_json: bool) -> None:
    """The matrix of harnesses and checkpoints: score / TIMR of each measured pair.

    \b
    coevo pairs --json
    """
    context = context_here(run, quiet=True)
    require_started(context)
    rows = [dict(pair_facts(context, pair.oid)) for pair in context.archive.pairs()]
    for row in rows:
        row["harness_name"] = context.archive.harness(row["harness"]).label
    if as_json:
        print_json(rows)
        return
    columns = list(dict.fromkeys(row["checkpoint_name"] for row in rows))
    cells = {(row["harness_name"], row["checkpoint_name"]): row for row in rows}
    click.echo(f"{'':<12}" + "".join(f"{c:>16}" for c in columns))
    for name in dict.fromkeys(row["harness_name"] for row in rows):
        line = [_cell(cells.get((name, column))) for column in columns]
        click.echo(f"{name:<12}" + "".join(f"{text:>16}" for text in line))
    click.echo("\nscore / TIMR on V; a dot: not measured together")


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "."
    timr = "n/a" if row["timr"] is None else f"{row['timr']:.2f}"
    return f"{row['score']:.3f} / {timr}"


COMMANDS = (log, show, diff, pairs)
