"""What a person reads after a round."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine.cli.steps import line
from engine.context import Context
from engine.self_evolution.draw import schedule
from engine.self_evolution.history import Step, steps

if TYPE_CHECKING:
    from rich.console import Console

Facts = Mapping[str, Any]


def summary(context: Context) -> Facts:
    """The last round as facts: incumbents, offspring, candidates, adaptation, promotion, cost."""
    archive = context.archive
    tip = archive.tip()
    assert tip is not None
    whole = json.loads(archive.read(tip.oid, "round.json")) if tip.round else {}
    promotion = whole.get("promotion", {})
    before = promotion.get("incumbent", tip.incumbent)
    return {
        "run": context.params.run,
        "round": tip.round,
        "commit": tip.oid,
        "incumbent_before": pair_facts(context, before),
        "incumbent": pair_facts(context, tip.incumbent),
        "offspring": [
            _offspring(context, o) for o in whole.get("offspring", {}).get("offspring", [])
        ],
        "candidates": [
            _candidate(context, c) for c in whole.get("candidates", {}).get("candidates", [])
        ],
        "selected": whole.get("candidates", {}).get("selected"),
        "note": whole.get("candidates", {}).get("note", ""),
        "adapted": _adapted(context, whole.get("adapted", {})),
        "promoted": promotion.get("promoted", False),
        "source": promotion.get("source", "incumbent"),
        "why": promotion.get("why", "round 0 archives the seed pair"),
        "iteration": _iteration(context, tip.round),
        "costs": dict(tip.costs),
    }


def _iteration(context: Context, number: int) -> Facts | None:
    """In self-evolution: where the round stands in the schedule, and what its lineages did."""
    if context.params.mode != "self":
        return None
    planned = schedule(context)
    now = planned[number] if number else None
    return {
        "of": len(planned.iterations),
        "stage": now.stage if now else 0,
        "step": now.step + 1 if now else 0,
        "steps": now.steps if now else 0,
        "lineages": [asdict(step) for step in steps(context, since=number)],
    }


def pair_facts(context: Context, oid: str) -> Facts:
    """A pair's hashes and figures."""
    pair = context.archive.pair(oid)
    outcome = context.outcome(pair)
    return {
        "pair": oid,
        "name": pair.label,
        "harness": pair.harness,
        "checkpoint": pair.checkpoint,
        "checkpoint_name": context.archive.checkpoint(pair.checkpoint).label,
        "score": outcome.score,
        "timr": outcome.timr,
        "tasks": outcome.tasks,
        "metrics": dict(outcome.metrics),
    }


def _offspring(context: Context, record: Mapping[str, Any]) -> Facts:
    return {**record, "base_name": _name(context, record["base"]) if record["base"] else ""}


def _candidate(context: Context, record: Mapping[str, Any]) -> Facts:
    facts = {**record, "checkpoint_name": _name(context, record["checkpoint"], "checkpoint")}
    facts["alpha"] = {
        _name(context, oid, "checkpoint"): weight for oid, weight in record["alpha"].items()
    }
    facts["measured"] = pair_facts(context, record["pair"]) if record["pair"] else None
    return facts


def _adapted(context: Context, record: Mapping[str, Any]) -> Facts:
    pair = record.get("pair")
    return {**record, "measured": pair_facts(context, pair) if pair else None}


def _name(context: Context, oid: str, kind: str = "harness") -> str:
    entry = (
        context.archive.checkpoint(oid) if kind == "checkpoint" else context.archive.harness(oid)
    )
    return str(entry.label)


def render(facts: Facts) -> str:
    """The facts for a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    # No markup: subjects, reasons and notes are made by harnesses and editors.
    console = Console(file=out, width=100, highlight=False, markup=False)
    console.print(f"run {facts['run']}, round {facts['round']}  ({facts['commit'][:12]})")
    if facts["iteration"]:
        _print_iteration(console, facts)
    elif facts["offspring"]:
        table = Table(
            "slot",
            "base",
            "change",
            "adopted",
            "checkpoint",
            "score",
            "TIMR",
            box=None,
            pad_edge=False,
        )
        for row in _rows(facts):
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
    adapted = facts["adapted"]
    if adapted.get("measured"):
        console.print(
            f"adapted   {adapted['accepted']} of {adapted['sampled']} sampled accepted, "
            f"{adapted['trained']} trained on ({adapted['replayed']} replayed)  "
            f"{_figures(adapted['measured'])}"
        )
    elif adapted.get("note"):
        console.print(f"adapted   {adapted['note']}")
    console.print(
        f"before    {facts['incumbent_before']['name']:<14} {_figures(facts['incumbent_before'])}"
    )
    mark = "promoted" if facts["promoted"] else "stays"
    console.print(
        f"after     {facts['incumbent']['name']:<14} {_figures(facts['incumbent'])}  {mark}"
    )
    console.print(f"why       {facts['why']}")
    if facts["costs"]:
        console.print("cost      " + ", ".join(f"{v:g} {k}" for k, v in facts["costs"].items()))
    pair, run = facts["incumbent"]["pair"][:12], facts["run"]
    console.print(
        f"next      dvc repro                           the next round\n"
        f"          git log --graph --oneline {run}/evolution\n"
        f"          coevo log\n"
        f"          coevo replay {pair}           run this pair again, task by task\n"
        f"          coevo use {pair} my-agent     check the agent out, ready to serve",
        soft_wrap=True,
    )
    return out.getvalue()


def _print_iteration(console: Console, facts: Facts) -> None:
    now = facts["iteration"]
    where = f", stage {now['stage']} ({now['step']} of {now['steps']})" if now["stage"] else ""
    console.print(f"iteration {facts['round']} of {now['of']}{where}")
    several = len(now["lineages"]) > 1
    for each in now["lineages"]:
        console.print(line(Step(**each), several), soft_wrap=True)


def _figures(facts: Facts) -> str:
    timr = "n/a" if facts["timr"] is None else f"{facts['timr']:.3f}"
    return f"score {facts['score']:.3f}  TIMR {timr}  ({facts['tasks']} tasks)"


def _rows(facts: Facts) -> list[list[str]]:
    rows = []
    for offspring in facts["offspring"]:
        own = [c for c in facts["candidates"] if c["slot"] == offspring["slot"]]
        adopted = ", ".join(mechanism for _, mechanism in offspring["adopts"]) or "-"
        lead = [offspring["slot"], offspring["base_name"], offspring["subject"], adopted]
        if offspring["status"] != "valid":
            reason = "; ".join(offspring["reasons"])[:60]
            rows.append([*lead, offspring["status"], reason, ""])
        for candidate in own:
            rows.append([*lead, _mixture(candidate), *_score(candidate)])
            lead = ["", "", "", ""]
    return rows


def _mixture(candidate: Facts) -> str:
    if len(candidate["alpha"]) == 1:
        return str(candidate["checkpoint_name"])
    mix = " + ".join(f"{weight:g} {name}" for name, weight in candidate["alpha"].items())
    return f"{candidate['checkpoint_name']} = {mix}"


def _score(candidate: Facts) -> list[str]:
    measured, preliminary = candidate["measured"], candidate["preliminary"]
    figures = measured or preliminary
    if not figures:
        return ["", ""]
    timr = "n/a" if figures["timr"] is None else f"{figures['timr']:.3f}"
    part = "" if measured else f" ({figures['tasks']})"
    return [f"{figures['score']:.3f}{part}", timr]
