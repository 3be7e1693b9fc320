"""One round of co-evolution (paper "Method"), as the stages of a DVC pipeline.

    open      round 0, or the next round t, with its incumbent p_t = (H_t, θ_t)
    observe   F_t = diagnose(p_t, O_t) on V
    curate    e_t and K hypotheses b_{t,1:K}, from the archive A_{<t}
    edit      K offspring H_{t,k}, each from a base its editor chose, with adopted designs U_{t,k}
    inherit   Q_sel: offspring × selected or TIES-merged checkpoints; p̄_t = the best on V
    adapt     rejection sampling under H̄_t, SFT of θ̄_t: p_t⁺
    promote   p_{t+1} = the best of {p_t, p̄_t, p_t⁺} on V by more than the margin

A stage reads the records of those before it and writes its own; the archive is written as things
arise. A stage that is run again after a kill finds what it had archived and journalled.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import pipeline, records
from engine.adaptation import trainer
from engine.context import Context, open_context
from engine.curator import curator
from engine.domains.registry import domain as find_domain
from engine.editors import editor
from engine.errors import ConfigError
from engine.inheritance import merger, policy
from engine.observer import Observer
from engine.params import Params, load
from engine.requirements import require_models
from engine.self_evolution import curate as self_curate
from engine.self_evolution import edit as self_edit
from engine.self_evolution import inherit as self_inherit
from engine.self_evolution import observe as self_observe
from engine.serving import find_server
from engine.stages import adapt, curate, edit, inherit, observe, open, promote


@dataclass(frozen=True)
class Stage:
    """A step of the round and the file its record goes to, below ``round/``."""

    run: Callable[[Context], Coroutine[Any, Any, object]]
    record: str


STAGES: Mapping[str, Stage] = {
    "open": Stage(open.run, "open.json"),
    "observe": Stage(observe.run, "feedback.json"),
    "curate": Stage(curate.run, "evidence.json"),
    "edit": Stage(edit.run, "offspring.json"),
    "inherit": Stage(inherit.run, "candidates.json"),
    "adapt": Stage(adapt.run, "adapted.json"),
    "promote": Stage(promote.run, "promotion.json"),
}

SELF_EVOLUTION: Mapping[str, Stage] = {
    **STAGES,
    "observe": Stage(self_observe.run, "feedback.json"),
    "curate": Stage(self_curate.run, "evidence.json"),
    "edit": Stage(self_edit.run, "offspring.json"),
    "inherit": Stage(self_inherit.run, "candidates.json"),
}
"""Of the second paper's loop, which is a round of the same seven steps (``mode: self``)."""


def run_stage(root: Path, name: str, observer: Observer) -> Path:
    """Run one stage under the run's lock; returns its record's path. Raises CoevoError."""
    if name not in STAGES:
        raise ConfigError(f"unknown stage {name!r}; the stages are: {', '.join(STAGES)}")
    params = load(root / "params.yaml")
    if name == "open":
        pipeline.watch(root)
        check_names(params)
    context = open_context(root, params, observer)
    stage = (SELF_EVOLUTION if params.mode == "self" else STAGES)[name]
    path = root / "round" / stage.record
    with context.archive.lock():
        if name != "open":
            opened = context.opened()
            if _is_finished(context, opened):
                _restore(context, opened, stage.record)
                return path
        observer.say(f"{name}")
        record = asyncio.run(stage.run(context))
        records.write(path, record)
    return path


def check_names(params: Params) -> None:
    """Find every part that ``params`` names, and what these ask, before anything is paid for.
    Raises ConfigError."""
    find_domain(params.domain)
    find_server(params.serving.backend)
    editor(params.editors.kind)
    curator(params.curator.kind)
    policy(params.inheritance.kind)
    merger(params.inheritance.merger)
    trainer(params.adaptation.trainer)
    require_models(params)


def _is_finished(context: Context, opened: records.Opened) -> bool:
    """Whether the round stands in the archive. Raises ConfigError where it is neither that nor
    the next one."""
    tip = context.archive.tip()
    current = -1 if tip is None else tip.round
    if opened.run != context.params.run or opened.round not in (current, current + 1):
        raise ConfigError(
            f"{context.root / 'round' / 'open.json'}: round {opened.round} of run {opened.run!r}, "
            f"but the archive stands at round {current} of run {context.params.run!r}; run "
            "`dvc repro` (or `coevo stage open`) first"
        )
    return opened.round == current


def _restore(context: Context, opened: records.Opened, name: str) -> None:
    """A finished round's records come back from its commit."""
    done = context.archive.round(f"r{opened.round:03d}")
    target = context.root / "round"
    if name == "evidence.json":
        shutil.rmtree(target / "briefs", ignore_errors=True)
        for path in context.archive.list(done.oid, "briefs"):
            records.write_bytes(target / path, context.archive.read(done.oid, path))
    if name in ("feedback.json", "evidence.json"):
        records.write_bytes(target / name, context.archive.read(done.oid, name))
    else:
        whole: Mapping[str, Any] = json.loads(context.archive.read(done.oid, "round.json"))
        part = json.dumps(whole[Path(name).stem], indent=1, ensure_ascii=False) + "\n"
        records.write_bytes(target / name, part.encode())
    if name == "promotion.json":
        promote.write_metrics(context)
