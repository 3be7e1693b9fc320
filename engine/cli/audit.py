"""audit: which rollouts look like reward hacking, and what was decided on each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from engine.audit import passes
from engine.audit.actions import actions
from engine.audit.record import Flag
from engine.audit.standing import Standing, all_standing, flagged, reread, standing
from engine.audit.subject import entries, named
from engine.cli.options import context_here, json_option, print_json, run_option
from engine.context import Context, require_started

_STATES = ("open", "confirmed", "rejected")


@click.group()
def audit() -> None:
    """Reward hacking: `scan` flags kept rollouts of pairs, tests and evaluations by a script;
    `judge` (a language model) or `confirm` and `reject` (you) settle each flag. A confirmed one
    scores 0 wherever scores are read and isn't run again; nothing recorded is rewritten.
    """


@audit.command()
@click.argument("commits", nargs=-1, metavar="[COMMIT]...")
@run_option
@json_option
def scan(commits: tuple[str, ...], run: str | None, as_json: bool) -> None:
    """Flag suspicious rollouts of COMMITs (pairs, test/N, evaluation/N; a round stands for its
    incumbent), of everything when none is named. What is found is kept under
    refs/coevo/RUN/audit.

    \b
    coevo audit scan
    coevo audit scan evo/pair/r001-k2 evaluation/1
    """
    context = _context(run, as_json)
    with context.archive.lock():
        wanted = [named(context, text) for text in commits] or list(entries(context))
        found = passes.scan(context, wanted)
    _print(found, as_json, _STATES)


@audit.command("list")
@click.option(
    "--status",
    "states",
    multiple=True,
    type=click.Choice(_STATES),
    help="Only flags that are so; may be given several times.",
)
@run_option
@json_option
def list_flags(states: tuple[str, ...], run: str | None, as_json: bool) -> None:
    """Every flag and what was decided on it.

    \b
    coevo audit list --status open
    """
    _print(all_standing(_context(run, True)), as_json, states or _STATES)


@audit.command()
@click.argument("id_", metavar="ID")
@run_option
@json_option
def show(id_: str, run: str | None, as_json: bool) -> None:
    """One flag: what the script found, every verdict, and the trajectory's actions.

    \b
    coevo audit show 3f9c21ab07
    """
    context = _context(run, True)
    each, flag = flagged(context, id_)
    facts = {**_facts(each, flag), "actions": _actions(context, each, flag)}
    if as_json:
        print_json(facts)
        return
    _line(each, flag)
    for verdict in facts["verdicts"]:
        word = "confirmed" if verdict["confirmed"] else "rejected"
        click.echo(f"    {word} by {verdict['by']} on {_day(verdict['at'])}: {verdict['reason']}")
    for action in facts["actions"]:
        click.echo(f"[turn {action['turn']}] {action['text']}")


def _actions(context: Context, each: Standing, flag: Flag) -> list[Mapping[str, Any]]:
    kept = next(k for k in reread(context, each).rollouts if k.digest == flag.trajectory)
    return [{"turn": a.turn, "text": a.text, "output": a.output} for a in actions(kept.trajectory)]


@audit.command()
@click.argument("commits", nargs=-1, metavar="[COMMIT]...")
@run_option
@json_option
def judge(commits: tuple[str, ...], run: str | None, as_json: bool) -> None:
    """Let the language model of params.yaml (llm, audit.model) settle the open flags, one session
    each. What it says is kept as it comes; you can overrule it.

    \b
    coevo audit judge
    """
    context = _context(run, as_json)
    with context.archive.lock():
        wanted = [named(context, text) for text in commits] or list(entries(context))
        known = [standing(context, kind, entry) for kind, entry in wanted]
        trouble = asyncio.run(passes.ask(context, [each for each in known if each]))
        found = [standing(context, kind, entry) for kind, entry in wanted]
    _print([each for each in found if each], as_json, _STATES)
    for line in trouble:
        click.echo(line, err=True)


@audit.command()
@click.argument("id_", metavar="ID")
@click.option("--reason", required=True, help="What the trajectory shows; it is archived.")
@run_option
@json_option
def confirm(id_: str, reason: str, run: str | None, as_json: bool) -> None:
    """It was cheating: the rollout scores 0 from now on. Your word stands over a model's.

    \b
    coevo audit confirm 3f9c21ab07 --reason "read the grader at turn 4 and printed its answer"
    """
    _settle(id_, True, reason, run, as_json)


@audit.command()
@click.argument("id_", metavar="ID")
@click.option("--reason", required=True, help="Why it is harmless; it is archived.")
@run_option
@json_option
def reject(id_: str, reason: str, run: str | None, as_json: bool) -> None:
    """It was no cheating: the flag is settled and the score stands.

    \b
    coevo audit reject 3f9c21ab07 --reason "listed the folder, used nothing of it"
    """
    _settle(id_, False, reason, run, as_json)


def _settle(id_: str, confirmed: bool, reason: str, run: str | None, as_json: bool) -> None:
    if not reason.strip():
        raise click.UsageError("--reason must say something; it is what the archive keeps")
    context = _context(run, as_json)
    with context.archive.lock():
        each, flag = passes.settle(context, id_, confirmed, reason)
    if as_json:
        print_json(_facts(each, flag))
    else:
        _line(each, flag)


def _context(run: str | None, quiet: bool) -> Context:
    context = context_here(run, quiet=quiet)
    require_started(context)
    return context


def _facts(each: Standing, flag: Flag) -> dict[str, Any]:
    record = each.record.to_json()
    [own] = [facts for facts in record["flags"] if facts["id"] == flag.id]
    verdicts = [verdict for verdict in record["verdicts"] if verdict["flag"] == flag.id]
    return {
        "of": f"{each.kind} {each.entry.label}",
        "commit": each.entry.oid,
        "audit": each.commit,
        "status": each.record.status(flag.id),
        **own,
        "verdicts": verdicts,
    }


def _print(every: Sequence[Standing], as_json: bool, states: Sequence[str]) -> None:
    rows = [(e, f) for e in every for f in e.record.flags if e.record.status(f.id) in states]
    if as_json:
        print_json(
            {
                "audited": [
                    {"of": f"{e.kind} {e.entry.label}", "scanned": e.record.scanned,
                     **e.record.counts} for e in every
                ],
                "flags": [_facts(each, flag) for each, flag in rows],
            }
        )  # fmt: skip
        return
    for each, flag in rows:
        _line(each, flag)
    counts = [sum(each.record.counts[name] for each in every) for name in ("flagged", *_STATES)]
    scanned = sum(each.record.scanned for each in every)
    click.echo(
        f"{scanned} rollouts of {len(every)} measurements: {counts[0]} flagged, {counts[1]} open, "
        f"{counts[2]} confirmed, {counts[3]} rejected"
    )


def _line(each: Standing, flag: Flag) -> None:
    status = each.record.status(flag.id)
    click.echo(
        f"{flag.id}  {status:<9}  {each.kind} {each.entry.label}  task {flag.task} "
        f"#{flag.execution}  score {flag.score:g}"
    )
    for finding in flag.findings:
        click.echo(f"    {finding.rule} (turn {finding.turn}): {finding.excerpt}")


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


COMMANDS = (audit,)
