"""``params.yaml``, typed, and the only reader of the environment.

Unknown keys are refused with a "did you mean"; every value's default stands here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from engine.errors import ConfigError
from engine.explaining import explain
from engine.llm.usage import Caps, Price
from engine.yaml_text import mapping
from kernel.contract import Limits, Sampling


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _fits_a_name(cls, value: object) -> object:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("a null character can be in no name")
        return value


class SamplingParams(_Section):
    """How completions are drawn (paper A.1: 1.0 / 0.95 / 20; greedy for the embedded model)."""

    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    max_tokens: int = Field(160, ge=1)

    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.top_k, self.max_tokens)


class SplitSizes(_Section):
    """Tasks in each split."""

    train: int = Field(480, ge=1)
    validation: int = Field(64, ge=2)
    test: int = Field(240, ge=1)


class ModelParams(_Section):
    """The seed checkpoint: ``smollm2-135m`` (embedded), a Hub id or a local folder."""

    seed: str = "smollm2-135m"


class ServingParams(_Section):
    """Who answers: ``embedded`` and ``vllm`` are started by the engine, ``external`` is not.
    ``thinking``: what models that can do both do (None: as their template has it)."""

    backend: str = "embedded"
    base_url: str | None = None
    api_key_env: str | None = None
    model: str | None = None
    concurrency: int = Field(16, ge=1)
    reproducible: bool = False
    context: int = Field(4096, ge=128)
    thinking: bool | None = None
    timeout_s: float = Field(180.0, gt=0)
    options: dict[str, Any] = Field(default_factory=dict)


class LimitParams(_Section):
    """What one rollout may use; ``turns`` None takes the domain's own limit."""

    turns: int | None = Field(None, ge=1)
    wall_s: float = Field(300.0, gt=0)
    cpu_s: int = Field(30, ge=1)
    memory_mb: int = Field(512, ge=64)
    tmp_mb: int = Field(64, ge=1)
    processes: int = Field(32, ge=1)

    def limits(self, domain_turns: int) -> Limits:
        return Limits(
            turns=self.turns or domain_turns,
            wall_s=self.wall_s,
            cpu_s=self.cpu_s,
            memory_bytes=self.memory_mb * 2**20,
            tmp_bytes=self.tmp_mb * 2**20,
            processes=self.processes,
        )


class PriceParams(_Section):
    """USD per million tokens; ``cached_input`` None: the same as ``input``."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(None, ge=0)

    def price(self) -> Price:
        return Price(self.input, self.output, self.cached_input)


class CapParams(_Section):
    """The most that calls to language models may use in a round; None: no cap."""

    calls: int | None = Field(None, ge=0)
    tokens: int | None = Field(None, ge=0)
    usd: float | None = Field(None, ge=0)
    seconds: float | None = Field(None, ge=0)

    def caps(self) -> Caps:
        return Caps(self.calls, self.tokens, self.usd, self.seconds)


class LLMParams(_Section):
    """The language model behind the meta-agent's roles; a role may name another ``model``.
    ``context`` in tokens; ``timeout_s`` for one whole reply."""

    base_url: str | None = None
    api_key_env: str | None = None
    model: str | None = None
    api: Literal["chat", "responses"] = "chat"
    reasoning_effort: str | None = None
    context: int = Field(128_000, ge=1024)
    timeout_s: float = Field(600.0, gt=0)
    prices: dict[str, PriceParams] = Field(default_factory=dict)
    caps: CapParams = CapParams()


class EditorParams(_Section):
    """Who turns briefs into offspring, and the line budget (None: none) each one has. ``bases``
    are the harnesses they may see and build on: all of the ``archive``, or the ``incumbent`` alone.

    The rest is for kinds that are coding agents: ``command`` is the template of kind ``command``;
    ``caps`` are all sessions' of a round together, the others hold for one session: ``turns`` are
    calls to the model, ``wall_s`` ends it. ``mounts`` are further folders it may read.
    """

    kind: str = "recipes"
    model: str | None = None
    caps: CapParams = CapParams()
    line_budget: int | None = Field(500, ge=1)
    bases: Literal["archive", "incumbent"] = "archive"
    command: str | list[str] | None = None
    parallel: int = Field(8, ge=1)
    wall_s: float = Field(3600.0, gt=0)
    turns: int | None = Field(200, ge=1)
    tokens: int | None = Field(None, ge=1)
    usd: float | None = Field(None, gt=0)
    disk_mb: int = Field(256, ge=1)
    memory_mb: int = Field(4096, ge=64)
    processes: int = Field(256, ge=4)
    mounts: list[str] = Field(default_factory=list)


class CuratorParams(_Section):
    """Who writes evidence and briefs, and how much of the archive it may read."""

    kind: str = "embedded"
    model: str | None = None
    caps: CapParams = CapParams()
    retrieval_budget: int = Field(24, ge=1)


class InheritanceParams(_Section):
    """At most ``proposals`` checkpoints for each offspring, ``merges`` of them mixtures;
    ``preliminary`` tasks of V rank these candidates, ``shortlist`` of them are measured on V."""

    kind: str = "embedded"
    model: str | None = None
    caps: CapParams = CapParams()
    merger: str = "mergekit"
    proposals: int = Field(2, ge=1)
    preliminary: int = Field(16, ge=1)
    shortlist: int = Field(4, ge=1)
    merges: int = Field(1, ge=0)
    density: float = Field(0.5, gt=0, le=1)
    normalize: bool = True


class LoraParams(_Section):
    """Adapters instead of all parameters, merged before they become a checkpoint."""

    rank: int = Field(8, ge=1)
    alpha: int = Field(32, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)


class AdaptationParams(_Section):
    """Rejection sampling (paper "Pair-specific adaptation": 3, T=1.0) and one epoch of SFT, full
    where ``lora`` is None. ``options`` are the trainer's own (docs/TRAINING.md)."""

    trainer: str = "transformers"
    tasks: int = Field(96, ge=1)
    samples: int = Field(3, ge=1)
    sampling: SamplingParams = SamplingParams(temperature=1.0, top_p=0.95, top_k=20)
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(8, ge=1)
    max_length: int = Field(2048, ge=64)
    lora: LoraParams | None = None
    replay: bool = True
    options: dict[str, Any] = Field(default_factory=dict)


class PromotionParams(_Section):
    """δ_prom: a gain on V must be greater than this."""

    margin: float = Field(0.02, ge=0)


class EvolutionStage(_Section):
    """One stage of self-evolution: ``iterations`` batches of ``per_family`` new tasks of each of
    ``families`` (None: those of the training split that no other stage names) and ``anchors``
    tasks that earlier stages solved. ``budget``: added lines, the first and the last iteration's.
    """

    families: list[str] | None = None
    per_family: int = Field(12, ge=1)
    anchors: int = Field(0, ge=0)
    iterations: int = Field(5, ge=1)
    budget: tuple[int, int] = (500, 100)

    @field_validator("budget")
    @classmethod
    def _falls(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not value[0] >= value[1] >= 1:
            raise ValueError(f"a budget falls and ends at 1 or more, as in [500, 100]; got {value}")
        return value


class GateParams(_Section):
    """Beyond the paper: refuse an offspring that loses to its base on ``per_family`` tasks of each
    family, held back from all batches: the paired interval at ``level`` lies below zero."""

    per_family: int = Field(2, ge=1)
    level: float = Field(0.8, gt=0, lt=1)


class SessionParams(LimitParams):
    """What one update session may use, its shell and its harness each."""

    turns: int | None = Field(300, ge=1)
    wall_s: float = Field(3600.0, gt=0)
    cpu_s: int = Field(1800, ge=1)
    memory_mb: int = Field(2048, ge=64)
    tmp_mb: int = Field(512, ge=1)
    processes: int = Field(128, ge=1)


class EvolutionParams(_Section):
    """``mode: self`` (second paper): the harness edits itself. ``session`` limits one update
    session; ``repairs`` is how often one that fails the checks goes back; ``lineages`` run side by
    side, the best holds the title."""

    stages: list[EvolutionStage] = Field([EvolutionStage()], min_length=1)
    repairs: int = Field(2, ge=0)
    session: SessionParams = SessionParams()
    gate: GateParams | None = None
    lineages: int = Field(1, ge=1)

    @property
    def iterations(self) -> int:
        """Of all stages together."""
        return sum(stage.iterations for stage in self.stages)


class AuditParams(_Section):
    """Who judges flagged trajectories: best another model than the one that is measured."""

    model: str | None = None
    caps: CapParams = CapParams()


class Params(_Section):
    """All parameters of a run."""

    run: str = Field("evo", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    mode: Literal["coevo", "harness-only", "model-only", "latest-only", "self"] = "coevo"
    domain: str = "smart_home"
    data: str | None = None
    skip_bad_rows: bool = False
    seed: int = 0
    rounds: int = Field(10, ge=1)
    offspring: int = Field(4, ge=1)
    executions: int = Field(1, ge=1)
    sandbox: Literal["bwrap", "none"] = "bwrap"
    executor: str = "local"
    splits: SplitSizes = SplitSizes()
    model: ModelParams = ModelParams()
    serving: ServingParams = ServingParams()
    sampling: SamplingParams = SamplingParams()
    limits: LimitParams = LimitParams()
    llm: LLMParams = LLMParams()
    curator: CuratorParams = CuratorParams()
    editors: EditorParams = EditorParams()
    inheritance: InheritanceParams = InheritanceParams()
    adaptation: AdaptationParams = AdaptationParams()
    promotion: PromotionParams = PromotionParams()
    audit: AuditParams = AuditParams()
    evolution: EvolutionParams = EvolutionParams()

    @model_validator(mode="after")
    def _consistent(self) -> Params:
        if self.inheritance.preliminary > self.splits.validation:
            raise ValueError(
                "inheritance.preliminary is larger than splits.validation; make it smaller"
            )
        for name, section in (("serving", self.serving), ("llm", self.llm)):
            if section.base_url and "@" in urlsplit(section.base_url).netloc:
                raise ValueError(
                    f"{name}.base_url holds a user or key, which would enter git; put the key "
                    f"into a variable and name that in {name}.api_key_env"
                )
        if self.serving.backend == "external" and not self.serving.base_url:
            raise ValueError("serving.base_url is needed with serving.backend: external")
        planned = [stage.iterations for stage in self.evolution.stages]
        if self.mode == "self" and self.rounds > sum(planned):
            raise ValueError(
                f"rounds: {self.rounds}, but evolution.stages have {' + '.join(map(str, planned))} "
                f"= {sum(planned)} iterations, one a round; set rounds: {sum(planned)}"
            )
        return self


def load(path: Path) -> Params:
    """Read ``params.yaml``. Raises ConfigError naming the key and the nearest known one."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: not there; `coevo init DIR` makes a run repository") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error})") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Params:
    """Parameters from YAML text; ``name`` stands in errors."""
    raw = mapping(text, name)
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(f"{name}: {explain(error, Params)}") from None


def environment(name: str) -> str | None:
    """One variable of the environment (keys of endpoints, switches); None where unset."""
    return os.environ.get(name)


def proxy(url: str) -> str | None:
    """The proxy that the environment names for ``url`` (http_proxy, https_proxy, no_proxy)."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return getproxies().get(parts.scheme)


def child_environment(**extra: str) -> dict[str, str]:
    """The environment for a process of the engine's own (server, trainer), with ``extra`` set."""
    return {**os.environ, **extra}


def find_root(start: Path) -> Path:
    """The run repository that holds ``start``. Raises ConfigError where there is none."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / "params.yaml").is_file() and (folder / "dvc.yaml").is_file():
            return folder
    raise ConfigError(
        f"{start.resolve()}: no run repository here (no params.yaml with dvc.yaml); "
        "`coevo init DIR` makes one"
    )
