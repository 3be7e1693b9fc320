"""What a run's parameters ask of a machine, with the arithmetic, before an hour is spent on it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import CoevoError, ConfigError
from engine.params import Params, environment

ZERO3_BYTES = 16
"""Of a parameter in training, over all devices: bf16 weight and gradient (2 + 2), and fp32 master
weight and two moments of AdamW (4 + 4 + 4). Activations come on top."""

STATE_BYTES = 14
"""Of a parameter in a state to go on from: the same without the gradient."""

_NAMED = re.compile(r"(\d+(?:\.\d+)?)\s*([bm])(?![a-z0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``needed`` says whether a round here can't run without it."""

    name: str
    ok: bool
    needed: bool
    found: str
    mend: str = ""


def required(params: Params, place: Path) -> Iterator[Finding]:
    """What ``params`` need of this machine, and of the disk that holds ``place``."""
    trains = params.mode not in ("harness-only", "self")
    swift = trains and params.adaptation.trainer == "swift"
    if params.serving.backend == "vllm":
        yield _vllm(params)
    if swift:
        yield _attempt("swift", lambda: _swift(params), "")
    yield from _devices(params, swift)
    yield _disk(params, place, trains)
    yield from _models_asked(params)
    yield from _tokens(params)


def parameters(model: str) -> tuple[float, str]:
    """How many parameters a seed model has, and how that is known; 0 where it isn't."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        return size / 2, "its files, in bf16"
    named = _NAMED.findall(model)
    if not named:
        return 0.0, "neither a folder here nor a size in its name"
    number, unit = named[-1]
    return float(number) * (1e9 if unit.lower() == "b" else 1e6), "its name"


def _attempt(name: str, look: Callable[[], str], mend: str) -> Finding:
    try:
        return Finding(name, True, True, look())
    except CoevoError as error:
        return Finding(name, False, True, str(error), mend)


def _vllm(params: Params) -> Finding:
    program = str(params.serving.options.get("program", "vllm"))
    path = shutil.which(program)
    mend = "pip install vllm where the GPUs are, or name its program in serving.options.program"
    return Finding("vllm", path is not None, True, path or f"no program {program!r}", mend)


def _swift(params: Params) -> str:
    from engine.adaptation.swift.options import SwiftOptions, find_program
    from engine.serving.options import checked

    options = checked(SwiftOptions, params.adaptation.options, "adaptation.options")
    steps = options.accumulation(params.adaptation.batch_size)
    return f"{find_program(options.command)}, {steps} accumulation steps"


def _devices(params: Params, swift: bool) -> Iterator[Finding]:
    served, trained = params.serving, params.adaptation.options
    at_once = [1]
    if served.backend == "vllm":
        parallel = [int(served.options.get(f"{kind}_parallel", 1)) for kind in ("tensor", "data")]
        at_once.append(parallel[0] * parallel[1])
    if swift:
        at_once.append(int(trained.get("devices", 1)))
    elif served.backend != "vllm":
        return
    wanted, on_cpu = max(at_once), bool(trained.get("cpu", False))
    gpus = [] if on_cpu else _gpus()
    yield Finding(
        "GPUs",
        on_cpu or len(gpus) >= wanted,
        True,
        "none needed" if on_cpu else f"{len(gpus)} here, {wanted} needed",
        "run where they are, or lower serving.options.*_parallel and adaptation.options.devices",
    )
    if swift:
        yield _training_memory(params, gpus)


def _training_memory(params: Params, gpus: list[float]) -> Finding:
    count, known = parameters(params.model.seed)
    options = params.adaptation.options
    devices = int(options.get("devices", 1)) * int(options.get("nodes", 1))
    shared = devices if options.get("deepspeed", "zero3") == "zero3" else 1
    each = ZERO3_BYTES * count / shared / 1e9
    found = (
        f"{ZERO3_BYTES} bytes × {_count(count)} parameters ({known}) / {shared} devices = "
        f"{each:.0f} GB each, and activations; "
        f"{f'the smallest here has {min(gpus):.0f} GB' if gpus else 'no GPU here'}"
    )
    fits = bool(options.get("cpu")) or (bool(gpus) and min(gpus) > each)
    mend = "more devices, deepspeed: zero3_offload, or adaptation.lora"
    return Finding("training memory", fits, True, found, mend)


def _disk(params: Params, place: Path, trains: bool) -> Finding:
    count, known = parameters(params.model.seed)
    merges = 0 if params.mode in ("harness-only", "self") else params.inheritance.merges
    made = 1 + params.rounds * (params.offspring * merges + trains)
    state = STATE_BYTES * count / 1e9 if params.adaptation.trainer == "swift" and trains else 0.0
    each = 2 * count / 1e9
    total = made * each + state
    free = shutil.disk_usage(place).free / 1e9
    found = (
        f"{made} checkpoints (1 seed + {params.rounds} rounds × ({params.offspring} offspring × "
        f"{merges} merges + {int(trains)} trained)) × {each:.1f} GB (bf16, {_count(count)} "
        f"parameters by {known}) + {state:.0f} GB training state = {total:.0f} GB at most; "
        f"{free:.0f} GB free"
    )
    mend = "a larger disk, `dvc push` with `coevo gc` between rounds, or fewer inheritance.merges"
    needed = free < each * (made - 1) / params.rounds + state  # not even one round fits
    return Finding("disk for all rounds", free > total, needed, found, mend)


def require_models(params: Params) -> None:
    """Raises ConfigError where what the Curator, the editors or the policy ask for isn't set up,
    before a round spends anything."""
    for finding in _models_asked(params):
        if not finding.ok:
            raise ConfigError(finding.found)


def _models_asked(params: Params) -> Iterator[Finding]:
    """For the kinds that ask a language model or start an agent, where this mode uses them."""
    from engine.curator import AskingCurator, curator
    from engine.editors import editor
    from engine.editors.sessions.editor import SessionEditor
    from engine.inheritance import AskingPolicy, policy
    from engine.llm.role import role_endpoint

    mode, roles = params.mode, []
    if mode == "self":
        return
    try:
        asking = isinstance(curator(params.curator.kind), AskingCurator)
        agent, chosen = editor(params.editors.kind), policy(params.inheritance.kind)
    except ConfigError as error:
        yield Finding("kinds", False, True, str(error))
        return
    if asking:
        roles.append("curator")
    if isinstance(agent, SessionEditor) and mode != "model-only":
        launch = agent.launch
        if agent.needs:
            roles.append("editors")
        yield _attempt(params.editors.kind, lambda: launch(params).label, "")
    if isinstance(chosen, AskingPolicy) and mode in ("coevo", "model-only"):
        roles.append("inheritance")

    def look() -> str:
        models = ", ".join(f"{role_endpoint(params, role).model} for {role}" for role in roles)
        return f"{params.llm.base_url}: {models}"

    if roles:
        yield _attempt("endpoint", look, "or choose embedded kinds for these roles")


def _tokens(params: Params) -> Iterator[Finding]:
    model = params.model.seed
    if "/" in model and not Path(model).expanduser().is_dir():
        there = any(environment(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"))
        stored = Path("~/.cache/huggingface/token").expanduser().exists()
        found = f"{'a token' if there or stored else 'no token'} for {model}"
        mend = "export HF_TOKEN=… if the model is gated or you push there"
        yield Finding("Hub token", there or stored, False, found, mend)
    key = params.serving.api_key_env
    if key:
        yield Finding(
            "endpoint key", environment(key) is not None, True, f"${key}", f"export {key}=…"
        )


def _gpus() -> list[float]:
    """Memory of each NVIDIA GPU in GB."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    return [float(line) * 2**20 / 1e9 for line in done.stdout.split() if line.isdigit()]


def _count(parameters: float) -> str:
    return f"{parameters / 1e9:.1f} B" if parameters >= 1e9 else f"{parameters / 1e6:.0f} M"
