"""inherit: H_{t+1} of each lineage, the offspring or H_t, run on the next batch (eq. 5).

The model is frozen, so every head keeps its checkpoint. After the last iteration the heads are
measured on the validation split instead.
"""

from __future__ import annotations

from dataclasses import replace

from engine.archive.entries import Pair
from engine.context import Context
from engine.evaluation.outcome import rank
from engine.evaluation.scheduler import Scheduler
from engine.measurement import measure
from engine.records import Candidate, Edited, Inherited, Offspring, read
from engine.self_evolution.gate import gate
from engine.self_evolution.succession import heads, lineage_of


async def run(context: Context) -> Inherited:
    """The measured heads; the best of them on this batch is selected."""
    number = context.opened().round
    edited = read(context.record("offspring"), Edited)
    offspring = {lineage_of(each.slot): each for each in edited.offspring}
    split = context.measured_on(number)
    async with context.scheduler() as scheduler:
        chosen = [
            await _next(context, scheduler, context.archive.pair(head.pair), offspring[head.slot])
            for head in heads(context)
        ]
        # Heads that are the same harness are one pair, run once, under the first one's name.
        names = {c.harness: f"r{number:03d}-{c.slot}-a" for c in reversed(chosen)}
        agents = {names[c.harness]: (c.harness, c.checkpoint) for c in chosen}
        pairs = await measure(context, scheduler, number, agents, f"heads on {split}")
        cost = scheduler.cost
    candidates = tuple(replace(each, pair=pairs[names[each.harness]]) for each in chosen)
    best = max(candidates, key=lambda each: rank(context.outcome(str(each.pair))))
    return Inherited(candidates, best.pair, f"measured on {split}", cost)


async def _next(
    context: Context, scheduler: Scheduler, head: Pair, offspring: Offspring
) -> Candidate:
    """The lineage's next harness and why: the offspring where it passed checks and gate."""
    lineage = lineage_of(offspring.slot)

    def candidate(harness: str, why: str) -> Candidate:
        return Candidate(lineage, harness, head.checkpoint, {head.checkpoint: 1.0}, why)

    if offspring.status != "valid":
        reasons = " ".join("; ".join(offspring.reasons).split())
        return candidate(head.harness, f"kept at H_t: {reasons}")
    entry = context.archive.harness(offspring.harness)
    said = f"accepted: +{entry.lines_added} of {entry.line_budget} lines"
    if offspring.repaired:
        said += f", after {len(offspring.remarks)} repair(s)"
    gated = await gate(context, scheduler, head.harness, offspring.harness, head.checkpoint)
    if gated is None:
        return candidate(offspring.harness, said)
    if gated.lost:
        kept = candidate(head.harness, f"kept at H_t: the gate found {gated.line}")
        return replace(kept, preliminary=gated.outcome)
    passed = candidate(offspring.harness, f"{said}; gate {gated.line}")
    return replace(passed, preliminary=gated.outcome)
