"""promote: only compares. The round commit keeps the choice and what it rests on."""

from __future__ import annotations

import json

from engine import spending
from engine.archive.drafts import RoundDraft
from engine.context import Context
from engine.diagnosis import Feedback
from engine.measurement import incumbent_today
from engine.promotion import Contender, promote
from engine.records import (
    Adapted,
    Edited,
    Inherited,
    Outcome,
    Promotion,
    metrics_bytes,
    read,
    to_bytes,
    write_bytes,
)
from engine.self_evolution.succession import take_over

_PARTS = ("open", "offspring", "candidates", "adapted")


async def run(context: Context) -> Promotion:
    """Choose p_{t+1} and archive the round."""
    inherited = read(context.record("candidates"), Inherited)
    adapted = read(context.record("adapted"), Adapted)
    if context.params.mode == "self":
        promotion = take_over(context, inherited)
    else:
        promotion = _contest(context, inherited, adapted)
    context.archive.notes_rebuild()
    _archive(context, promotion, inherited, adapted)
    write_metrics(context)
    return promotion


def _contest(context: Context, inherited: Inherited, adapted: Adapted) -> Promotion:
    """The best of p_t, p̄_t and p_t⁺ by more than the margin."""
    incumbent = incumbent_today(context)
    reference = context.outcome(incumbent)
    former = [context.outcome(done.incumbent) for done in context.archive.rounds()]
    contenders = [
        Contender(source, pair, context.outcome(pair))
        for source, pair in (("inherited", inherited.selected), ("adapted", adapted.pair))
        if pair and pair != incumbent
    ]
    return promote(
        context.domain,
        context.opened().round,
        incumbent,
        reference,
        [outcome for outcome in former if outcome.setting == reference.setting],
        contenders,
        context.params.promotion.margin,
    )


def _archive(
    context: Context, promotion: Promotion, inherited: Inherited, adapted: Adapted
) -> None:
    edited = read(context.record("offspring"), Edited)
    pairs = [c.pair for c in inherited.candidates if c.pair]
    pairs += [adapted.pair] if adapted.pair else []
    held = {
        commit
        for pair in pairs
        for commit in (context.archive.pair(pair).harness, context.archive.pair(pair).checkpoint)
    }
    made = [o.harness for o in edited.offspring] + [c.checkpoint for c in inherited.candidates]
    others = [oid for oid in dict.fromkeys(made) if oid not in held]
    observed = read(context.record("feedback"), Feedback)
    cost = observed.cost + edited.cost + inherited.cost + adapted.cost
    outcome = context.outcome(promotion.next)
    whole = {name: json.loads(context.record(name).read_bytes()) for name in _PARTS}
    whole["promotion"] = json.loads(to_bytes(promotion))
    asked = spending.of_round(context, promotion.round)
    whole["llm"] = {role: dict(used.figures()) for role, used in asked.items()}
    briefs = sorted((context.root / "round" / "briefs").glob("*.json"))
    context.archive.record_round(
        RoundDraft(
            round=promotion.round,
            incumbent=promotion.next,
            promoted=promotion.promoted,
            gain=promotion.gain if promotion.promoted else None,
            pairs=tuple(dict.fromkeys(pairs)),
            others=tuple(others),
            files={
                "round.json": (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode(),
                "metrics.json": metrics_bytes(promotion.round, outcome),
                "feedback.json": context.record("feedback").read_bytes(),
                "evidence.json": context.record("evidence").read_bytes(),
                **{f"briefs/{path.name}": path.read_bytes() for path in briefs},
                **context.pipeline_files(),
            },
            costs={**cost.figures(), **spending.figures(asked)},
            subject=_subject(promotion, outcome),
        )
    )


def _subject(promotion: Promotion, outcome: Outcome) -> str:
    what = f"promote the {promotion.source} pair" if promotion.promoted else "the incumbent stays"
    return f"Round {promotion.round}: {what}, score {outcome.score:.3f}"


def write_metrics(context: Context) -> None:
    """``metrics.json`` and ``plots.json`` for DVC, from the archive."""
    rounds = context.archive.rounds()
    history = []
    for done in rounds:
        outcome = context.outcome(done.incumbent)
        history.append({"round": done.round, "score": outcome.score, "timr": outcome.timr})
    last = context.outcome(rounds[-1].incumbent)
    write_bytes(context.root / "metrics.json", metrics_bytes(rounds[-1].round, last))
    write_bytes(context.root / "plots.json", (json.dumps(history, indent=1) + "\n").encode())
