"""Replay: run an archived pair again exactly as it was measured, and compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.context import Context
from engine.errors import ArchiveError
from engine.measurement import evaluate
from engine.params import Params, parse
from engine.records import Outcome
from engine.statistics import Difference, paired_bootstrap


@dataclass(frozen=True)
class Replay:
    """A pair's recorded outcome beside its new one; ``tasks`` maps opaque ids to both scores."""

    pair: str
    name: str
    recorded: Outcome
    new: Outcome
    tasks: Mapping[str, tuple[float, float]]
    difference: Difference

    @property
    def equal(self) -> bool:
        """Task by task the same."""
        return all(a == b for a, b in self.tasks.values())


async def replay(context: Context, pair_oid: str) -> Replay:
    """Rebuild harness and checkpoint from the archive (weights through DVC), run the recorded
    split with the recorded seeds and parameters, never reading the journal."""
    pair = context.archive.pair(pair_oid)
    recorded = context.outcome(pair_oid)
    past = replace(context, params=params_of(context, pair.round))
    async with past.scheduler(journalled=False) as scheduler:
        [(new, _)] = await evaluate(
            past, scheduler, [(pair.harness, pair.checkpoint)], recorded.split, "replay"
        )
    if set(new.by_task) != set(recorded.by_task):
        raise ArchiveError(
            f"{pair_oid[:12]}: recorded on {recorded.tasks} tasks, but the frozen {recorded.split} "
            f"split gives {new.tasks} others; is this the run's own archive?"
        )
    tasks = {
        name: (_mean(scores), _mean(new.by_task[name])) for name, scores in recorded.by_task.items()
    }
    difference = paired_bootstrap([a for a, _ in tasks.values()], [b for _, b in tasks.values()])
    name = pair.label
    return Replay(pair_oid, name, recorded, new, tasks, difference)


def params_of(context: Context, round_number: int) -> Params:
    """The parameters that a round was run with (today's for a round that isn't archived yet)."""
    for done in context.archive.rounds():
        if done.round == round_number:
            text = context.archive.read(done.oid, "params.yaml").decode()
            return parse(text, f"{done.oid[:12]}:params.yaml")
    return context.params


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
