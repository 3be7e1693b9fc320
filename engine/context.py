"""What every stage works with: the archive, the stores, the domain, the frozen splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import kernel
from engine import splits
from engine.archive import Archive
from engine.archive.entries import Pair
from engine.checkpoints import CheckpointStore
from engine.domains import Domain, Task, rollout_limits
from engine.domains.registry import domain as find_domain
from engine.dvc_store import DvcStore
from engine.errors import ArchiveError, DataError
from engine.evaluation.journal import Journal
from engine.evaluation.keys import Setting
from engine.evaluation.scheduler import Agent, Scheduler
from engine.observer import Observer
from engine.params import Params, SamplingParams
from engine.records import Opened, Outcome, adapter, from_bytes, read
from engine.self_evolution import draw
from engine.self_evolution.batches import batch_name
from engine.serving import server as make_server
from kernel.contract import Limits

SPLITS_FILE = "splits.json"
FIRST_ROUND = "r000"


@dataclass
class Context:
    """One engine on one run repository. Made by ``open_context``; heavy parts load when asked.
    ``readable`` are the splits that it gives out: the test split only to ``engine.testing``."""

    root: Path
    params: Params
    archive: Archive
    observer: Observer
    readable: frozenset[str] = frozenset({"train", "validation"})

    @cached_property
    def domain(self) -> Domain:
        return find_domain(self.params.domain)

    @cached_property
    def dvc(self) -> DvcStore:
        return DvcStore(self.root)

    @cached_property
    def checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.root, self.dvc)

    @cached_property
    def journal(self) -> Journal:
        return Journal(self.root / ".coevo" / "journal" / f"{self.params.run}.sqlite")

    def record(self, name: str) -> Path:
        """Where a stage's record lies."""
        return self.root / "round" / f"{name}.json"

    def opened(self) -> Opened:
        """The round that is being run."""
        return read(self.record("open"), Opened)

    def pipeline_files(self) -> Mapping[str, bytes]:
        """The pipeline as it was run, for the round's tree."""
        names = ("params.yaml", "dvc.yaml", "dvc.lock")
        return {n: (self.root / n).read_bytes() for n in names if (self.root / n).exists()}

    def generation(self) -> str | None:
        """The one harness that editors may build on, the incumbent's, in latest-only runs and with
        ``editors.bases: incumbent``; None: any in the archive."""
        if self.params.mode != "latest-only" and self.params.editors.bases == "archive":
            return None
        return self.archive.pair(self.opened().incumbent).harness

    def measured_on(self, round_number: int) -> str:
        """The split that a round measures its candidates on, its winner the next incumbent:
        validation, or in self-evolution the next iteration's batch while there is one."""
        params = self.params
        if params.mode != "self" or round_number >= params.evolution.iterations:
            return "validation"
        return batch_name(round_number + 1)

    def seed_checkpoint(self) -> str:
        """The checkpoint of round 0's pair."""
        return self.archive.pair(self.archive.round(FIRST_ROUND).incumbent).checkpoint

    # --- splits -------------------------------------------------------------------------------

    @cached_property
    def frozen(self) -> splits.FrozenSplits:
        """The splits that round 0 froze."""
        first = self.archive.round(FIRST_ROUND)
        data = self.archive.read(first.oid, SPLITS_FILE)
        return from_bytes(data, splits.FrozenSplits, f"{first.oid[:12]}:{SPLITS_FILE}")

    @cached_property
    def _loaded(self) -> dict[str, splits.Split]:
        return {}

    def split(self, name: str) -> splits.Split:
        """A frozen split. Raises DataError for one that isn't ``readable`` here."""
        if name not in self.readable:
            raise DataError(f"the {name} split is closed to rounds; only `coevo test` reads it")
        if name not in self._loaded:
            self._loaded[name] = splits.load(
                self.root, self.params.run, name, self.frozen, self.dvc
            )
        return self._loaded[name]

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a frozen split, or of a batch that self-evolution draws from training."""
        return draw.part(self, split) if draw.is_part(split) else self.split(split).tasks

    # --- agents and rollouts ------------------------------------------------------------------

    def scheduler(self, *, journalled: bool = True) -> Scheduler:
        """A scheduler on a server of the configured kind; neither starts before it is needed."""
        return Scheduler(
            self.domain,
            self.journal if journalled else None,
            make_server(self.params.serving, self.root / ".coevo"),
            self.observer,
            secret=self.split("validation").salt,
            run_seed=self.params.seed,
            concurrency=1 if self.params.serving.reproducible else self.params.serving.concurrency,
            sandbox=self.params.sandbox,
            where=self.params.executor,
        )

    def setting(self, split: str, sampling: SamplingParams | None = None) -> Setting:
        return Setting(
            split=split,
            sampling=(sampling or self.params.sampling).sampling(),
            limits=self.limits(),
            backend=make_server(self.params.serving, self.root / ".coevo").fingerprint,
            domain=self.domain.name,
            kernel=kernel.digest(),
        )

    def limits(self) -> Limits:
        """What a rollout may use."""
        return rollout_limits(self.domain, self.params)

    def agent(self, harness: str, checkpoint: str) -> Agent:
        """The pair, its weights on this disk and verified."""
        entry = self.archive.harness(harness)
        weights = self.archive.checkpoint(checkpoint)
        folder = self.checkpoints.path(weights.weights, weights.dvc)
        return Agent(entry.files, entry.code_id, folder, weights.weights)

    def outcome(self, pair: str | Pair) -> Outcome:
        """The outcome of a pair as it stands: rollouts that an audit confirmed score 0 in it."""
        entry = self.archive.pair(pair) if isinstance(pair, str) else pair
        return adapter(Outcome).validate_python(dict(self.archive.standing(entry)))

    def recorded(self, pair: str) -> Outcome:
        """The outcome that the pair's commit recorded, whatever an audit said later."""
        return adapter(Outcome).validate_python(dict(self.archive.pair(pair).outcome))


def open_context(root: Path, params: Params, observer: Observer) -> Context:
    """A context on ``root``. Raises ArchiveError where it is no usable git repository."""
    return Context(root, params, Archive.open(root, params.run), observer)


def require_started(context: Context) -> None:
    """Raises ArchiveError where the run has no round yet."""
    if context.archive.tip() is None:
        raise ArchiveError(
            f"run {context.params.run!r} has no round yet; `dvc repro` (or `make round`) runs one"
        )
