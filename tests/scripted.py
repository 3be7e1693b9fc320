"""Scripted stand-ins for the model stack: a model that is right as often as its checkpoint's skill
says, a trainer that raises the skill, a merger that averages it. Real processes, git and DVC run
around them, in a fraction of the time. Loaded by params (``scripted:ScriptedServer``)."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.adaptation import TrainParams, TrainReport
from engine.brief import Brief, Evidence
from engine.editors import Edit
from engine.errors import ModelError
from engine.inheritance import History, MergeRefused, Proposal
from engine.params import ServingParams
from engine.serving import calls
from engine.serving.wire import outgoing
from engine.view import ArchiveView
from kernel.contract import (
    Completion,
    ContextLengthExceeded,
    ModelUnavailable,
    RawToolCall,
    Sampling,
)

ROOMS = (
    "master bedroom", "guest bedroom", "living room", "dining room", "study room", "kitchen",
    "bathroom", "foyer", "corridor", "balcony", "garage", "store room",
)  # fmt: skip


class ScriptedServer:
    """Serves a checkpoint folder by its ``skill.json``. ``options``: ``latency_s`` for each
    completion, ``log`` a file that gets a line for each, ``dies_after`` so many completions."""

    name = "scripted"
    fingerprint = "scripted"

    def __init__(self, params: ServingParams, root: Path) -> None:
        self._latency = float(params.options.get("latency_s", 0.0))
        self._log = params.options.get("log")
        self._left = itertools.count(params.options.get("dies_after", 10**9), -1)
        self._context, self._stopped = params.context, False

    @property
    def parallel(self) -> int:
        return 64

    async def start(self, progress: Any = None) -> None:
        self._stopped = False

    async def stop(self) -> None:
        self._stopped = True

    def model(self, folder: Path, digest: str) -> ScriptedChat | ScriptedSpeaker:
        if not (folder / "config.json").exists():
            raise ModelError(f"{folder}: no checkpoint there")
        if (folder / "says.txt").exists():
            said = (folder / "says.txt").read_text()
            return ScriptedSpeaker(said, self._context, lambda: self._stopped)
        skill = json.loads((folder / "skill.json").read_text())["skill"]
        return ScriptedChat(skill, digest, self._latency, self._log, self._left)


class ScriptedSpeaker:
    """Says one thing to everything, under the rules of every backend."""

    def __init__(self, said: str, context: int, stopped: Callable[[], bool]) -> None:
        self._said, self._context, self._stopped = said, context, stopped

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        if self._stopped():
            raise ModelUnavailable("http://scripted: no answer; it was stopped")
        words = sum(len(str(m["content"]).split()) for m in outgoing(list(messages)))
        if words + sampling.max_tokens > self._context:
            raise ContextLengthExceeded(f"{words} words; {self._context} fit")
        text, made, malformed = calls.parse(self._said, list(tools))
        return Completion(text, made, malformed, prompt_tokens=words, completion_tokens=1)


class OtherServer(ScriptedServer):
    """The same answers, but who knows: another backend."""

    fingerprint = "other"


class ScriptedChat:
    """Answers switch instructions rightly for a share ``skill`` of instructions."""

    def __init__(
        self, skill: float, digest: str, latency_s: float, log: str | None, left: Iterator[int]
    ) -> None:
        self._skill, self._digest, self._latency, self._log = skill, digest, latency_s, log
        self._left = left

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        import asyncio

        await asyncio.sleep(self._latency)
        if next(self._left) <= 0:
            raise ModelUnavailable("http://scripted: no answer; check that the server runs")
        if self._log:
            mark = hashlib.sha256(json.dumps(list(messages)).encode()).hexdigest()[:16]
            with Path(self._log).open("a") as stream:
                stream.write(f"{self._digest[:12]} {seed} {mark}\n")
        said = next(m["content"] for m in reversed(messages) if m["role"] == "user")
        instruction = said.rsplit("Instruction: ", 1)[-1]
        luck = int(hashlib.sha256(f"{instruction}{seed}".encode()).hexdigest()[:4], 16) / 0xFFFF
        if luck > 0.9 + self._skill / 10:
            return Completion(
                content="<tool_call>{broken", malformed=True, prompt_tokens=9, completion_tokens=3
            )
        commands = command(instruction) if luck < self._skill else "{kitchen.light.wrong()}"
        call = RawToolCall(f"c{seed}", "final_answer", json.dumps({"commands": commands}))
        return Completion(content="", tool_calls=(call,), prompt_tokens=9, completion_tokens=3)


def command(instruction: str) -> str:
    """The command of a switch instruction; a wrong one for every other."""
    text = instruction.lower()
    room = next((r for r in ROOMS if r in text), "kitchen").replace(" ", "_")
    room = room.replace("dining_room", "ding_room")
    switch = re.search(r"\b(on|off)\b", re.sub(r"on the (balcony|foyer|corridor)", "", text))
    device = "air_conditioner" if "air conditioner" in text else "light"
    return "{{{}.{}.turn_{}()}}".format(room, device, switch[1] if switch else "on")


def train(
    checkpoint: Path,
    dataset: Path,
    out: Path,
    params: TrainParams,
    seed: int,
    progress: Any,
    say: Any = None,
) -> TrainReport:
    """Raises the skill by 0.2 and takes a moment."""
    samples = len(dataset.read_text().splitlines())
    for step in range(1, 4):
        time.sleep(0.1)
        progress(step, 3, 1.0 / step)
    skill = json.loads((checkpoint / "skill.json").read_text())["skill"]
    write_checkpoint(out, min(1.0, skill + 0.2), mark=f"sft-{samples}-{seed}")
    return TrainReport(losses=(1.0, 0.5), samples=samples, seconds=0.3)


def train_but_one(
    checkpoint: Path,
    dataset: Path,
    out: Path,
    params: TrainParams,
    seed: int,
    progress: Any,
    say: Any = None,
) -> TrainReport:
    """As ``train``, but one sample was too long."""
    report = train(checkpoint, dataset, out, params, seed, progress)
    return replace(report, samples=report.samples - 1, skipped=1)


def merge(
    sources: list[Path],
    weights: list[float],
    base: Path,
    out: Path,
    density: float,
    normalize: bool,
    scale: float = 1.0,
) -> Mapping[str, Any]:
    """Averages the skills."""
    skills = [json.loads((s / "skill.json").read_text())["skill"] for s in sources]
    skill = sum(w * s for w, s in zip(weights, skills, strict=True))
    if skill in skills:
        raise MergeRefused("the merge changes nothing")
    time.sleep(0.2)
    write_checkpoint(out, skill, mark=f"ties-{density}-{scale}")
    settings = {"density": density, "normalize": normalize, "lambda": scale}
    return {"merge_method": "ties", "weights": weights, **settings}


class TwoMerges:
    """A policy that mixes the newest adapted checkpoint with the seed, in two ways."""

    def propose(
        self, history: History, base: str, merges: int, density: float, normalize: bool
    ) -> list[Proposal]:
        del base
        seed = next(c.oid for c in history.checkpoints if c.method == "seed")
        trained = [c for c in history.checkpoints if c.method == "sft"][-1].oid
        mixtures = ({trained: 0.7, seed: 0.3}, {trained: 0.4, seed: 0.6})
        return [Proposal(alpha, "a mixture", density, normalize) for alpha in mixtures[:merges]]


def write_checkpoint(folder: Path, skill: float, mark: str = "") -> Path:
    """A checkpoint folder that the store takes for one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "scripted", "mark": mark}))
    (folder / "skill.json").write_text(json.dumps({"skill": skill}))
    (folder / "model.safetensors").write_bytes(hashlib.sha256(f"{skill}{mark}".encode()).digest())
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text('{"chat_template": "{{ tools }}<tool_call>"}')
    (folder / "README.md").write_text(f"# scripted, skill {skill}\n")
    return folder


class FaultyEditor:
    """Leaves harnesses that pass every check and then fail on some tasks: the first crashes, the
    second hangs, the others are sound."""

    FAULTS = ('raise RuntimeError("boom")', "while True: pass")

    def edit(
        self,
        brief: Brief,
        evidence: Evidence,
        view: ArchiveView,
        rng: random.Random,
        line_budget: int | None,
    ) -> Edit:
        base = view.index()[0].oid
        number = int(brief.slot.removeprefix("k"))
        fault = dict(enumerate(self.FAULTS, 1)).get(number, "pass")
        files = dict(view.files(base))
        files["harness.py"] += (
            "\n\n_run = run\n\n\nasync def run(instruction, model, world):\n"
            f'    if "air conditioner" in instruction:\n        {fault}\n'
            "    return await _run(instruction, model, world)\n"
        ).encode()
        return Edit(files, base, f"Meet air conditioners with: {fault}", "faulty")

    def repair(self, edit: Edit, *rest: object) -> Edit:
        return edit


FAULTY = FaultyEditor()
