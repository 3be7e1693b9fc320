"""The command line of ``swift sft`` for one training, and the variables it runs under."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.adaptation import TrainParams
from engine.adaptation.swift.options import SwiftOptions


@dataclass(frozen=True)
class Job:
    """One training: where everything is. ``resume`` is a state to go on from."""

    checkpoint: Path
    rows: Path
    output: Path
    seed: int
    resume: Path | None = None


def sft(program: str, job: Job, params: TrainParams, options: SwiftOptions) -> list[str]:
    """The paper's settings (A.1, table 4) as ms-swift takes them.

    The rows are rendered already, so no chat template of ms-swift's comes near them
    (``use_chat_template false``). Without DeepSpeed, which keeps fp32 weights for the optimizer,
    the weights themselves are fp32: a step of 5e-6 is lost in bf16.
    """
    dtype = "bfloat16" if options.deepspeed else "float32"
    arguments = {
        "model": job.checkpoint,
        "model_type": options.model_type or model_type(job.checkpoint),
        "check_model": False,
        **plain_template(job.checkpoint),
        "disable_ignore_empty_think": True,
        **_tuner(params),
        "dataset": job.rows,
        "split_dataset_ratio": 0,
        "strict": True,
        "load_from_cache_file": False,
        "max_length": params.max_length,
        "num_train_epochs": params.epochs,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": options.accumulation(params.batch_size),
        "optim": "adamw_torch",
        "adam_beta2": 0.999,
        "learning_rate": params.learning_rate,
        "lr_scheduler_type": "cosine",
        "warmup_ratio": params.warmup,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "torch_dtype": dtype,
        "fp16": False,
        "bf16": True,
        "gradient_checkpointing": options.gradient_checkpointing,
        "sequence_parallel_size": options.sequence_parallel,
        **({"deepspeed": options.deepspeed} if options.deepspeed else {}),
        **({"use_cpu": True} if options.cpu else {}),
        "seed": job.seed,
        "data_seed": job.seed,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": options.save_steps,
        "save_total_limit": 1,
        "report_to": "none",
        "add_version": False,
        "output_dir": job.output,
        **({"resume_from_checkpoint": job.resume} if job.resume else {}),
    }
    return [program, "sft", *flags(arguments), *(str(part) for part in options.args)]


def merge(program: str, adapters: Path, output: Path, options: SwiftOptions) -> list[str]:
    """``swift export``: the adapters into the weights they were trained on."""
    arguments = {
        "adapters": adapters,
        "merge_lora": True,
        "output_dir": output,
        **({"device_map": "cpu"} if options.cpu else {}),
    }
    return [program, "export", *flags(arguments)]


def launch(options: SwiftOptions) -> dict[str, str]:
    """Variables by which ``swift`` starts itself under torchrun; none for one device without
    DeepSpeed."""
    several = options.devices * options.nodes > 1
    if not (several or options.deepspeed):
        return dict(options.env)
    made = {"NPROC_PER_NODE": str(options.devices), "MASTER_PORT": str(options.master_port)}
    if options.nodes > 1:
        made |= {
            "NNODES": str(options.nodes),
            "NODE_RANK": "0",
            "MASTER_ADDR": options.master_addr,
        }
    return made | {name: str(value) for name, value in options.env.items()}


def script(command: Sequence[str], env: Mapping[str, str]) -> str:
    """A shell script that starts the same; on other nodes run it with their ``NODE_RANK``."""
    lines = [
        f"export {name}=${{{name}:-{value}}}" if name == "NODE_RANK" else f"export {name}={value}"
        for name, value in ((name, shlex.quote(value)) for name, value in env.items())
    ]
    [program, *rest] = command
    parts = " \\\n  ".join([shlex.join([program, rest[0]]), *_pairs(rest[1:])])
    return "\n".join(["#!/bin/sh", *lines, f"exec {parts}"]) + "\n"


def flags(arguments: Mapping[str, object]) -> list[str]:
    """Long options in ms-swift's spelling."""
    made: list[str] = []
    for name, value in arguments.items():
        texts = value if isinstance(value, list) else [value]
        made += [f"--{name}", *(_text(each) for each in texts)]
    return made


def model_type(checkpoint: Path) -> str:
    """The architecture's name, which is ms-swift's own for most; it refuses to guess."""
    return str(json.loads((checkpoint / "config.json").read_text("utf-8")).get("model_type", ""))


def plain_template(checkpoint: Path) -> dict[str, object]:
    """Rows as they are: no template of ms-swift's is applied. It wants one named all the same where
    many models share an architecture; those with eyes have one of their own, which prepares more
    than text."""
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    named = {} if {"vision_config", "text_config"} & set(config) else {"template": "chatml"}
    return {**named, "use_chat_template": False}


def _tuner(params: TrainParams) -> dict[str, object]:
    if params.lora is None:
        return {"tuner_type": "full"}
    return {
        "tuner_type": "lora",
        "target_modules": "all-linear",
        "lora_rank": params.lora.rank,
        "lora_alpha": params.lora.alpha,
        "lora_dropout": params.lora.dropout,
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pairs(arguments: Sequence[str]) -> list[str]:
    """An option with its values to a line."""
    lines: list[list[str]] = []
    for part in arguments:
        if part.startswith("--") or not lines:
            lines.append([])
        lines[-1].append(part)
    return [shlex.join(line) for line in lines]
