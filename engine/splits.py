"""The splits of a run: made once, frozen, kept by DVC, never in git.

Each split is its own file, so that a round can read training and validation tasks without ever
opening the test split, which only ``coevo test`` asks for.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.domains import Domain, Splits, Task
from engine.dvc_store import DvcStore
from engine.errors import ConfigError, DataError
from engine.overlap import require_disjoint
from engine.params import Params
from engine.records import write_bytes

NAMES = ("train", "validation", "test")


@dataclass(frozen=True)
class FrozenSplit:
    """One split as the archive names it: its DVC file, the digest of its tasks, their number."""

    dvc: str
    digest: str
    tasks: int


@dataclass(frozen=True)
class FrozenSplits:
    """What round 0 records of the splits, how many malformed rows are missing in them and how many
    sound ones the domain's filters left out."""

    splits: Mapping[str, FrozenSplit]
    source: str
    skipped: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class Made:
    """Splits that aren't frozen yet, where they come from (``generated`` or a folder), and a line
    for each malformed row (``skipped``) and each that a filter dropped (``left_out``)."""

    parts: Mapping[str, Sequence[Task]]
    source: str
    skipped: Sequence[str] = ()
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class Split:
    """The tasks of a frozen split, and the salt of their opaque ids (it travels with the labelled
    tasks through DVC, never through git)."""

    tasks: Sequence[Task]
    salt: bytes


def secret(root: Path) -> bytes:
    """The run repository's secret: it salts generated tasks and opaque ids, and stays outside git.
    Made on first use."""
    path = root / ".coevo" / "secret"
    if not path.exists():
        write_bytes(path, secrets.token_bytes(32))
        path.chmod(0o600)
    return path.read_bytes()


def make(root: Path, params: Params, domain: Domain) -> Made:
    """The splits that ``params`` ask for. Nothing is written but the secret of generated ones.

    Raises DataError for data that is missing or malformed, ConfigError where rows are to be
    skipped and the domain's loader can't.
    """
    sizes = params.splits.model_dump()
    if params.data:
        source = str(params.data)
        load_from: Callable[..., Splits] = domain.load
        options = _skipping(domain) if params.skip_bad_rows else {}
        splits = load_from((root / params.data).resolve(), params.seed, sizes, **options)
    else:
        source = "generated"
        splits = domain.generate(secret(root).hex(), params.seed, sizes)
    parts = {name: list(getattr(splits, name)) for name in NAMES}
    missing = (tuple(getattr(splits, name, ())) for name in ("skipped", "left_out"))
    return Made(parts, source, *missing)


def _skipping(domain: Domain) -> Mapping[str, bool]:
    if "skip_bad_rows" not in inspect.signature(domain.load).parameters:
        raise ConfigError(
            f"skip_bad_rows: the loader of domain {domain.name} can't leave rows out; "
            "set it to false and mend the row that the error then names"
        )
    return {"skip_bad_rows": True}


def freeze(root: Path, params: Params, made: Made, dvc: DvcStore) -> FrozenSplits:
    """Check that the splits are disjoint by id, content and group, and hand them to DVC.

    Raises DataError where they aren't.
    """
    require_disjoint(made.parts)
    salt = hmac.new(secret(root), params.run.encode(), hashlib.sha256).hexdigest()
    frozen = {}
    for name, tasks in made.parts.items():
        path = split_path(root, params.run, name)
        lines = [{"salt": salt}, *(asdict(task) for task in tasks)]
        data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_bytes(path, data.encode())
        frozen[name] = FrozenSplit(
            dvc.add(path), hashlib.sha256(data.encode()).hexdigest(), len(tasks)
        )
    return FrozenSplits(frozen, made.source, len(made.skipped), len(made.left_out))


def split_path(root: Path, run: str, name: str) -> Path:
    """Where a split lies in a work tree."""
    return root / ".coevo" / "splits" / run / f"{name}.jsonl"


def load(root: Path, run: str, name: str, frozen: FrozenSplits, dvc: DvcStore) -> Split:
    """One frozen split, from this work tree or through DVC.

    Raises DataError where the file isn't the one that was frozen.
    """
    path, record = split_path(root, run, name), frozen.splits[name]
    if not path.exists():
        dvc.materialise(record.dvc, path)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != record.digest:
        raise DataError(
            f"{path}: not the {name} split that round 0 froze; delete it and it is restored by DVC"
        )
    header, *lines = data.splitlines()
    return Split(
        [Task(**json.loads(line)) for line in lines], bytes.fromhex(json.loads(header)["salt"])
    )
