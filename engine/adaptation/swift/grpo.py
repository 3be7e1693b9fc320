"""RL under the initial harness by ms-swift: the paper's baselines (table 9), as command lines.

``swift rollout`` serves the policy and plays episodes through the kernel (``environment``);
``swift rlhf`` trains on what comes back and sends it new weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.adaptation.swift.command import flags, plain_template
from engine.errors import ConfigError

SCHEDULER = "coevo"


@dataclass(frozen=True)
class Policy:
    """What sets the two methods apart. ``delta`` is the dual clip, ``loss_type`` ms-swift's name of
    the aggregation: ``dapo`` is the mean over a batch's tokens, ``grpo`` the mean over sequences of
    each one's mean over tokens."""

    level: str
    loss_type: str
    low: float
    high: float
    delta: float | None = None


POLICIES = {
    "grpo": Policy("token", "dapo", 0.2, 0.2),
    "gspo": Policy("sequence", "grpo", 3e-4, 4e-4, 10.0),
}


@dataclass(frozen=True)
class Settings:
    """Table 9, shared by both methods. Lengths in tokens."""

    learning_rate: float = 1e-6
    rollouts: int = 8
    prompts_per_step: int = 1
    epochs: int = 3
    prompt: int = 8192
    response: int = 4096
    temperature: float = 1.0
    rollout_tensor_parallel: int = 2
    devices: int = 4
    sequence_parallel: int = 4

    def steps(self, prompts: int) -> int:
        """Optimisation steps on ``prompts`` training tasks."""
        return self.epochs * prompts // self.prompts_per_step

    def sampled(self, prompts: int) -> int:
        """Trajectories that a whole run samples; it trains on every one."""
        return prompts * self.rollouts * self.epochs


@dataclass(frozen=True)
class Place:
    """Where a baseline's files are."""

    checkpoint: Path
    folder: Path
    model_type: str
    turns: int
    seed: int

    @property
    def plugin(self) -> Path:
        return self.folder / "plugin.py"


def policy(method: str) -> Policy:
    """Raises ConfigError for a method that there is none of."""
    if method not in POLICIES:
        raise ConfigError(f"no baseline is called {method!r}; known: {', '.join(POLICIES)}")
    return POLICIES[method]


def rollout(program: str, place: Place, settings: Settings) -> list[str]:
    """``swift rollout``: the policy's server, on GPUs of its own."""
    arguments = {
        "model": place.checkpoint,
        "model_type": place.model_type,
        **plain_template(place.checkpoint),
        "external_plugins": place.plugin,
        "multi_turn_scheduler": SCHEDULER,
        "max_turns": place.turns,
        "use_gym_env": True,
        "vllm_use_async_engine": True,
        "vllm_tensor_parallel_size": settings.rollout_tensor_parallel,
        "vllm_max_model_len": settings.prompt + settings.response,
        "port": 8000,
    }
    return [program, "rollout", *flags(arguments)]


def train(program: str, method: str, place: Place, settings: Settings) -> list[str]:
    """``swift rlhf --rlhf_type grpo`` with the method's policy loss.

    A step's completions (prompts × rollouts) are shared out to the devices as ms-swift counts
    them, sequence parallel or not. No KL penalty, no entropy bonus; advantages are normalised by
    group.
    """
    own = policy(method)
    at_once = settings.prompts_per_step * settings.rollouts
    arguments = {
        "rlhf_type": "grpo",
        "model": place.checkpoint,
        "model_type": place.model_type,
        "check_model": False,
        **plain_template(place.checkpoint),
        "tuner_type": "full",
        "dataset": place.folder / "tasks.jsonl",
        "split_dataset_ratio": 0,
        "load_from_cache_file": False,
        "external_plugins": place.plugin,
        "use_vllm": True,
        "vllm_mode": "server",
        "vllm_server_host": "127.0.0.1",
        "vllm_server_port": 8000,
        "vllm_server_pass_dataset": True,
        "multi_turn_scheduler": SCHEDULER,
        "max_turns": place.turns,
        "use_gym_env": True,
        "num_generations": settings.rollouts,
        "num_iterations": 1,
        "temperature": settings.temperature,
        "max_length": settings.prompt,
        "max_completion_length": settings.response,
        "completion_length_limit_scope": "total",
        "learning_rate": settings.learning_rate,
        "num_train_epochs": settings.epochs,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": max(1, at_once // settings.devices),
        "beta": 0.0,
        "advantage_estimator": "grpo",
        "scale_rewards": "group",
        "importance_sampling_level": own.level,
        "loss_type": own.loss_type,
        "epsilon": own.low,
        "epsilon_high": own.high,
        **({"delta": own.delta} if own.delta is not None else {}),
        "torch_dtype": "bfloat16",
        "bf16": True,
        "gradient_checkpointing": True,
        "sequence_parallel_size": settings.sequence_parallel,
        "deepspeed": "zero3",
        "seed": place.seed,
        "data_seed": place.seed,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": 500,
        "save_total_limit": 1,
        "report_to": "none",
        "add_version": False,
        "output_dir": place.folder / "output",
    }
    return [program, "rlhf", *flags(arguments)]


def variables(settings: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """The environment of server and training: which GPUs, and how many processes train."""
    first = ",".join(map(str, range(settings.devices)))
    ids = range(settings.devices, settings.devices + settings.rollout_tensor_parallel)
    server = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, ids))}
    return server, {"CUDA_VISIBLE_DEVICES": first, "NPROC_PER_NODE": str(settings.devices)}
