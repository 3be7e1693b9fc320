"""What the language models behind the roles used: from the ledger of this machine, and from the
round commits, which a clone has without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from engine.archive.entries import Round
from engine.context import Context
from engine.llm.ledger import by_role, ledger_path
from engine.llm.usage import Usage
from engine.records import adapter

Spent = Mapping[tuple[int, str], Usage]


def of_round(context: Context, number: int) -> Mapping[str, Usage]:
    """By role, for the round's commit."""
    found = by_role(ledger_path(context.root, context.params.run))
    return {role: used for (round_, role), used in sorted(found.items()) if round_ == number}


def figures(asked: Mapping[str, Usage]) -> Mapping[str, float]:
    """For the commit's trailers; none where no model was asked."""
    total = sum(asked.values(), Usage())
    if not total.calls:
        return {}
    return {
        "llm-calls": total.calls,
        "llm-tokens": total.tokens,
        "llm-usd": round(total.usd, 6),
    }


def of_run(context: Context) -> Spent:
    """By round and role. Where ledger and commit both tell of a round's role, the one with more
    calls does: the ledger of a clone knows only what the clone asked."""
    known = dict(by_role(ledger_path(context.root, context.params.run)))
    for key, used in _committed(context):
        if used.calls > known.get(key, Usage()).calls:
            known[key] = used
    return known


def _committed(context: Context) -> Iterator[tuple[tuple[int, str], Usage]]:
    for done in context.archive.rounds():
        if done.costs.get("llm_calls"):
            for role, used in _recorded(context, done).items():
                yield (done.round, role), used


def _recorded(context: Context, done: Round) -> Mapping[str, Usage]:
    whole = json.loads(context.archive.read(done.oid, "round.json"))
    return {role: adapter(Usage).validate_python(used) for role, used in whole["llm"].items()}
