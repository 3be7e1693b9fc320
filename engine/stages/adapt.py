"""adapt: rejection sampling under the selected harness, SFT of its checkpoint, p⁺ on V."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.adaptation import Lora, TrainParams, TrainReport, trainer
from engine.adaptation.dataset import Sample, read_samples, samples_of, with_replay, write_samples
from engine.archive.drafts import CheckpointDraft
from engine.archive.entries import Checkpoint
from engine.checkpoints import Stored
from engine.context import Context
from engine.domains import Task
from engine.dvc_text import name_in
from engine.evaluation.scheduler import Scheduler
from engine.measurement import incumbent_today, measure
from engine.naming import settle
from engine.records import Adapted, Cost, Inherited, read


@dataclass(frozen=True)
class _Data:
    """What is trained on, and where it came from. The file is named by its content."""

    path: Path
    samples: Sequence[Sample]
    sampled: int
    accepted: int
    replayed: int
    dvc: str


async def run(context: Context) -> Adapted:
    """p_t⁺ = (H̄_t, θ_t⁺); passes through with no selected pair or no accepted trajectory."""
    opened = context.opened()
    selected = read(context.record("candidates"), Inherited).selected
    if context.params.mode in ("harness-only", "self"):
        return Adapted(None, None, note=f"{context.params.mode}: the model is frozen")
    if selected is None:
        return Adapted(None, None, note="no selected pair: nothing to adapt")
    incumbent_today(context)  # promote compares with it: what changed is found before it costs
    pair = context.archive.pair(selected)
    # The server is stopped while weights are trained: the two don't fit one machine's memory.
    async with context.scheduler() as scheduler:
        data = await _sample(context, scheduler, pair.harness, pair.checkpoint)
        cost = scheduler.cost
    counts = Adapted(None, None, data.sampled, data.accepted, data.replayed, cost=cost)
    if not data.samples:
        return replace(counts, note="no accepted trajectory to learn from")
    start = time.monotonic()
    trained = _train(context, pair.harness, pair.checkpoint, data)
    cost += Cost(seconds=time.monotonic() - start)
    named = {f"r{opened.round:03d}-adapted": (pair.harness, trained.oid)}
    async with context.scheduler() as scheduler:
        pairs = await measure(context, scheduler, opened.round, named, "adapted pair on V")
        cost += scheduler.cost
    return replace(
        counts,
        pair=pairs[next(iter(named))],
        checkpoint=trained.oid,
        trained=int(trained.provenance["trained"]),
        loss=tuple(trained.provenance["loss"]),
        cost=cost,
    )


async def _sample(context: Context, scheduler: Scheduler, harness: str, checkpoint: str) -> _Data:
    params = context.params.adaptation
    tasks = _training_tasks(context)
    sampled = await scheduler.until_accepted(
        context.agent(harness, checkpoint),
        tasks,
        context.setting("train", params.sampling),
        params.samples,
        f"sampling {len(tasks)} training tasks",
    )
    accepted = [rollouts[-1] for rollouts in sampled if rollouts[-1].verdict.accepted]
    number = context.opened().round
    new = [{**sample, "round": number} for rollout in accepted for sample in samples_of(rollout)]
    samples, replayed = with_replay(new, _earlier(context) if params.replay else [])
    path = write_samples(_datasets(context), samples)
    total = sum(len(rollouts) for rollouts in sampled)
    return _Data(path, samples, total, len(accepted), replayed, context.dvc.add(path))


def _datasets(context: Context) -> Path:
    return context.root / ".coevo" / "datasets" / context.params.run


def _training_tasks(context: Context) -> Sequence[Task]:
    """This round's part of D_train: another seeded draw each round."""
    tasks = list(context.tasks("train"))
    draw = random.Random(f"{context.params.seed}/{context.opened().round}")
    return draw.sample(tasks, min(context.params.adaptation.tasks, len(tasks)))


def _earlier(context: Context) -> list[Sample]:
    """All samples that earlier rounds trained on."""
    samples: list[Sample] = []
    for checkpoint in context.archive.checkpoints():
        if checkpoint.method == "sft" and checkpoint.round < context.opened().round:
            samples += read_samples(_dataset_path(context, checkpoint))
    return samples


def _dataset_path(context: Context, checkpoint: Checkpoint) -> Path:
    dvc = checkpoint.provenance["dataset"]
    path = _datasets(context) / name_in(dvc)
    return path if path.exists() else context.dvc.materialise(dvc, path)


def _train(context: Context, harness: str, checkpoint: str, data: _Data) -> Checkpoint:
    """The archived checkpoint θ⁺; a training that is archived isn't repeated."""
    archive, params = context.archive, context.params.adaptation
    thinking = context.params.serving.thinking
    settings = TrainParams(
        learning_rate=params.learning_rate,
        batch_size=params.batch_size,
        max_length=params.max_length,
        lora=Lora(**params.lora.model_dump()) if params.lora else None,
        switches={} if thinking is None else {"enable_thinking": thinking},
        options=params.options,
    )
    number = context.opened().round
    own = {c.label: c for c in archive.checkpoints() if c.round == number}
    mark = ((checkpoint,), harness, data.dvc, settings.settings())
    settled = settle(f"r{number:03d}-sft", own, lambda c: _mark(c) == mark)
    if settled.known is not None:
        return settled.known
    name = settled.name
    stored, report = _trained(context, name, archive.checkpoint(checkpoint), data, settings)
    draft = CheckpointDraft(
        name=name,
        round=number,
        method="sft",
        sources=(checkpoint,),
        alpha=(1.0,),
        trained_under=harness,
        weights=stored.digest,
        dvc=stored.dvc_text,
        provenance=_provenance(data, settings, report),
        card=f"# {name}\n\nOne epoch of {settings.kind}, of {checkpoint[:12]} on "
        f"{report.samples} conversations of verifier-accepted trajectories ({data.accepted} new, "
        f"{data.replayed} replayed), sampled under harness {harness[:12]}.\n",
        subject=f"Adapt {name}: SFT on {report.samples} accepted conversations",
    )
    return archive.checkpoint(archive.record_checkpoint(draft))


def _mark(made: Checkpoint) -> tuple[object, ...]:
    """What a training is known by."""
    provenance = made.provenance
    return (
        made.sources,
        made.trained_under,
        provenance.get("dataset"),
        provenance.get("settings"),
    )


def _trained(
    context: Context, name: str, source: Checkpoint, data: _Data, settings: TrainParams
) -> tuple[Stored, TrainReport]:
    store, out = context.checkpoints, context.root / ".coevo" / "training" / name
    shutil.rmtree(out, ignore_errors=True)
    count = len(data.samples)
    with context.observer.bar(f"SFT on {count} conversations", count) as bar:
        seen = 0

        def progress(done: int, total: int, loss: float) -> None:
            nonlocal seen
            samples = round(done / max(total, 1) * count)
            bar.advance(samples - seen, note=f"loss {loss:.3f}")
            seen = samples

        report = trainer(context.params.adaptation.trainer)(
            store.path(source.weights, source.dvc),
            data.path,
            out,
            settings,
            context.params.seed,
            progress,
            context.observer.say,
        )
    return store.add(out), report


def _provenance(data: _Data, settings: TrainParams, report: TrainReport) -> dict[str, object]:
    return {
        "method": "sft",
        "dataset": data.dvc,
        "sampled": data.sampled,
        "accepted": data.accepted,
        "replayed": data.replayed,
        "trained": report.samples,
        "skipped": report.skipped,
        "settings": settings.settings(),
        "loss": list(report.losses),
    }
