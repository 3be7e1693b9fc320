"""adapt: rejection sampling under the selected harness, SFT of its checkpoint, p⁺ on V."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.adaptation import TrainParams, TrainReport, trainer
from engine.adaptation.dataset import Sample, read_samples, samples_of, with_replay, write_samples
from engine.archive.drafts import CheckpointDraft
from engine.archive.entries import Checkpoint
from engine.context import Context
from engine.domains import Task
from engine.evaluation.scheduler import Scheduler
from engine.measurement import measure_on_validation
from engine.records import Adapted, Inherited, read


@dataclass(frozen=True)
class _Data:
    """What is trained on, and where it came from."""

    samples: Sequence[Sample]
    sampled: int
    accepted: int
    replayed: int
    dvc: str


async def run(context: Context) -> Adapted:
    """p_t⁺ = (H̄_t, θ_t⁺); passes through with no selected pair or no accepted trajectory."""
    opened = context.opened()
    selected = read(context.record("candidates"), Inherited).selected
    if context.params.mode == "harness-only":
        return Adapted(None, None, note="harness-only: the model is frozen")
    if selected is None:
        return Adapted(None, None, note="no selected pair: nothing to adapt")
    pair = context.archive.pair(selected)
    name = f"r{opened.round:03d}-sft"
    async with context.scheduler() as scheduler:
        data = await _sample(context, scheduler, pair.harness, pair.checkpoint, name)
        counts = Adapted(None, None, data.sampled, data.accepted, data.replayed, len(data.samples))
        if not data.accepted:
            return replace(
                counts, note="no trajectory was accepted: nothing to learn", cost=scheduler.cost
            )
        checkpoint, loss = _train(context, pair.harness, pair.checkpoint, name, data)
        pairs = await measure_on_validation(
            context,
            scheduler,
            opened.round,
            {f"r{opened.round:03d}-adapted": (pair.harness, checkpoint)},
            "adapted pair on V",
        )
        [adapted] = pairs.values()
        return replace(counts, pair=adapted, checkpoint=checkpoint, loss=loss, cost=scheduler.cost)


async def _sample(
    context: Context, scheduler: Scheduler, harness: str, checkpoint: str, name: str
) -> _Data:
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
    new = [sample for rollout in accepted for sample in samples_of(rollout)]
    samples, replayed = with_replay(new, _earlier(context, name) if params.replay else [])
    path = context.root / ".coevo" / "datasets" / context.params.run / f"{name}.jsonl"
    write_samples(path, samples)
    total = sum(len(rollouts) for rollouts in sampled)
    return _Data(samples, total, len(accepted), replayed, context.dvc.add(path))


def _training_tasks(context: Context) -> Sequence[Task]:
    """This round's part of D_train: another seeded draw each round."""
    tasks = list(context.tasks("train"))
    draw = random.Random(f"{context.params.seed}/{context.opened().round}")
    return draw.sample(tasks, min(context.params.adaptation.tasks, len(tasks)))


def _earlier(context: Context, name: str) -> list[Sample]:
    """All samples that earlier rounds trained on, oldest first."""
    samples: list[Sample] = []
    for checkpoint in context.archive.checkpoints():
        if checkpoint.method == "sft" and checkpoint.label != name:
            samples += read_samples(_dataset_path(context, checkpoint))
    return samples


def _dataset_path(context: Context, checkpoint: Checkpoint) -> Path:
    label = checkpoint.label
    path = context.root / ".coevo" / "datasets" / context.params.run / f"{label}.jsonl"
    return (
        path if path.exists() else context.dvc.materialise(checkpoint.provenance["dataset"], path)
    )


def _train(
    context: Context, harness: str, checkpoint: str, name: str, data: _Data
) -> tuple[str, tuple[float, ...]]:
    """The archived checkpoint θ⁺ and its loss curve; a training that is archived isn't repeated."""
    archive, store, params = context.archive, context.checkpoints, context.params.adaptation
    for known in archive.checkpoints():
        if known.label == name:
            return known.oid, tuple(known.provenance["loss"])
    source = archive.checkpoint(checkpoint)
    dataset = context.root / ".coevo" / "datasets" / context.params.run / f"{name}.jsonl"
    settings = TrainParams(
        learning_rate=params.learning_rate,
        batch_size=params.batch_size,
        max_length=params.max_length,
    )
    out = context.root / ".coevo" / "training" / name
    with context.observer.bar(f"SFT on {len(data.samples)} trajectories", len(data.samples)) as bar:
        seen = 0

        def progress(done: int, total: int, loss: float) -> None:
            nonlocal seen
            samples = round(done / max(total, 1) * len(data.samples))
            bar.advance(samples - seen, note=f"loss {loss:.3f}")
            seen = samples

        report = trainer(params.trainer)(
            store.path(source.weights, source.dvc),
            dataset,
            out,
            settings,
            context.params.seed,
            progress,
        )
    stored = store.add(out)
    draft = CheckpointDraft(
        name=name,
        round=context.opened().round,
        method="sft",
        sources=(checkpoint,),
        alpha=(1.0,),
        trained_under=harness,
        weights=stored.digest,
        dvc=stored.dvc_text,
        provenance=_provenance(data, settings, report),
        card=f"# {name}\n\nOne epoch of full-parameter SFT of {checkpoint[:12]} on "
        f"{len(data.samples)} verifier-accepted trajectories ({data.replayed} replayed), sampled "
        f"under harness {harness[:12]}.\n",
        subject=f"Adapt {name}: SFT on {len(data.samples)} accepted trajectories",
    )
    return archive.record_checkpoint(draft), tuple(report.losses)


def _provenance(data: _Data, settings: TrainParams, report: TrainReport) -> dict[str, object]:
    return {
        "method": "sft",
        "dataset": data.dvc,
        "sampled": data.sampled,
        "accepted": data.accepted,
        "replayed": data.replayed,
        "trained": len(data.samples),
        "settings": asdict(settings),
        "loss": list(report.losses),
    }
