"""Replay: run an archived pair again exactly as it was measured, and compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from engine.context import Context
from engine.errors import ArchiveError
from engine.evaluation.keys import changed
from engine.measurement import evaluate
from engine.params import Params, parse
from engine.records import Outcome
from engine.statistics import Difference, paired_bootstrap


@dataclass(frozen=True)
class Replay:
    """A pair's recorded outcome beside its new one; ``tasks`` maps opaque ids to both scores.
    ``changed`` names what differs in how the two were measured (kernel, backend, ...)."""

    pair: str
    name: str
    recorded: Outcome
    new: Outcome
    tasks: Mapping[str, tuple[float, float]]
    difference: Difference
    reproducible: bool
    changed: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Task by task the same."""
        return all(a == b for a, b in self.tasks.values())

    @property
    def confirmed(self) -> bool:
        """Whether the record holds: exactly where serving is reproducible, else within noise."""
        return self.equal or not (self.reproducible or self.difference.certain)


async def replay(context: Context, pair_oid: str) -> Replay:
    """Rebuild harness and checkpoint from the archive (weights through DVC), run the recorded
    split with the recorded seeds and parameters, never reading the journal."""
    pair = context.archive.pair(pair_oid)
    recorded = context.recorded(pair_oid)
    past = as_of(context, pair.round)
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
        name: (fmean(scores), fmean(new.by_task[name])) for name, scores in recorded.by_task.items()
    }
    return Replay(
        pair_oid,
        pair.label,
        recorded,
        new,
        tasks,
        paired_bootstrap([a for a, _ in tasks.values()], [b for _, b in tasks.values()]),
        past.params.serving.reproducible,
        _changed(recorded, new),
    )


def as_of(context: Context, round_number: int) -> Context:
    """A context that measures as a round did (as today's for one that isn't archived yet): what is
    measured and how comes from that round, who serves and confines it from today's params.yaml,
    since this may be another machine."""
    then, now = _params_of(context, round_number), context.params
    serving = now.serving.model_copy(update={"reproducible": then.serving.reproducible})
    measured = ("domain", "seed", "executions", "sampling", "limits")
    update = {name: getattr(then, name) for name in measured}
    return replace(context, params=now.model_copy(update={**update, "serving": serving}))


def _params_of(context: Context, round_number: int) -> Params:
    tip = context.archive.tip()
    if tip is None or tip.round < round_number:
        return context.params
    done = context.archive.round(f"r{round_number:03d}")
    text = context.archive.read(done.oid, "params.yaml").decode()
    return parse(text, f"{done.oid[:12]}:params.yaml")


def _changed(recorded: Outcome, new: Outcome) -> tuple[str, ...]:
    if recorded.eval_key == new.eval_key:
        return ()
    return tuple(changed(recorded.setting, new.setting)) or ("tasks or code",)
