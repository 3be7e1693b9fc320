"""The frozen splits of a run: made once, kept by DVC, never in git.

Each split is its own file, so that a round can read training and validation tasks without ever
opening the test split, which only ``coevo test`` asks for.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.domains import Domain, Task
from engine.dvc_store import DvcStore
from engine.errors import DataError
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
    """What round 0 records of the splits. ``salted`` says that generated tasks used a secret."""

    splits: Mapping[str, FrozenSplit]
    source: str


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


def freeze(root: Path, params: Params, domain: Domain, dvc: DvcStore) -> FrozenSplits:
    """Make the splits, check that they are disjoint by id and by content, hand them to DVC."""
    sizes = params.splits.model_dump()
    if params.data:
        source = str(params.data)
        splits = domain.load((root / params.data).resolve(), params.seed, sizes)
    else:
        source = "generated"
        splits = domain.generate(secret(root).hex(), params.seed, sizes)
    parts = {name: list(getattr(splits, name)) for name in NAMES}
    salt = hmac.new(secret(root), params.run.encode(), hashlib.sha256).hexdigest()
    _check_disjoint(parts)
    frozen = {}
    for name, tasks in parts.items():
        path = split_path(root, params.run, name)
        lines = [{"salt": salt}, *(asdict(task) for task in tasks)]
        data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_bytes(path, data.encode())
        frozen[name] = FrozenSplit(
            dvc.add(path), hashlib.sha256(data.encode()).hexdigest(), len(tasks)
        )
    return FrozenSplits(frozen, source)


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
    header, *lines = data.decode().splitlines()
    return Split(
        [Task(**json.loads(line)) for line in lines], bytes.fromhex(json.loads(header)["salt"])
    )


def _check_disjoint(parts: Mapping[str, Sequence[Task]]) -> None:
    for kind in ("id", "content"):
        owner: dict[str, str] = {}
        for name, tasks in parts.items():
            for task in tasks:
                mark = getattr(task, kind)
                before = owner.setdefault(mark, name)
                if before != name:
                    raise DataError(
                        f"task {task.id}: its {kind} stands in {before} and in {name}; "
                        "splits must be disjoint"
                    )
