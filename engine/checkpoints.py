"""Checkpoints on disk: a folder each, named by a digest of its files, kept by DVC."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from engine.disk import require_room
from engine.dvc_store import DvcStore
from engine.errors import CheckpointError, DataError
from engine.seams import find
from engine.serving import calls

SEEDS = {"smollm2-135m": "engine.smollm2:write_checkpoint"}
"""Seed checkpoints that don't come from a folder or the Hub: name -> function(folder) -> facts."""

_IGNORED = {"README.md", ".gitattributes"}


@dataclass(frozen=True)
class Stored:
    """A checkpoint that DVC keeps. ``digest`` identifies the weights, tokenizer and template."""

    digest: str
    dvc_text: str
    path: Path
    provenance: Mapping[str, Any] = field(default_factory=dict)


class CheckpointStore:
    """The checkpoints of a run repository, materialised below ``checkpoints/`` when used."""

    def __init__(self, root: Path, dvc: DvcStore) -> None:
        self._folder, self._dvc = root / "checkpoints", dvc
        self._scratch = root / ".coevo" / "seeding"
        self._verified: set[str] = set()

    def seed(self, model: str) -> Stored:
        """The seed checkpoint: a name in ``SEEDS``, a local folder, or a Hub id.

        Raises CheckpointError where it can't be had, and DataError, before anything is copied or
        fetched, where there is no room for it.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.parent.mkdir(parents=True, exist_ok=True)
        if model in SEEDS:
            facts = dict(find("model.seed", model, SEEDS)(self._scratch))
        elif (given := Path(model).expanduser()).is_dir():
            size = sum(path.stat().st_size for path in given.rglob("*") if path.is_file())
            require_room(self._scratch, size, f"params.yaml: model.seed: {model}")
            shutil.copytree(given, self._scratch)
            facts = {"source": model}
        else:
            facts = _from_hub(model, self._scratch)
        check_complete(self._scratch)
        if calls.ensure_tools(self._scratch):
            facts["chat_template"] = "replaced by tags for tool calls: its own knows no tools"
        return self.add(self._scratch, {"method": "seed", "model": model, **facts})

    def add(self, folder: Path, provenance: Mapping[str, Any] | None = None) -> Stored:
        """Take ``folder`` (it is moved) into the store. Raises CheckpointError where it is no
        complete checkpoint."""
        check_complete(folder)
        if not (folder / "README.md").exists():
            (folder / "README.md").write_text("# checkpoint\n")
        name = digest(folder)
        target = self._path(name)
        if target.exists() and folder != target and digest(target) != name:
            shutil.rmtree(target)  # truncated or changed since; what is added is the same, whole
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            folder.replace(target)
        elif folder != target:
            shutil.rmtree(folder)
        self._verified.add(name)
        return Stored(name, self._dvc.add(target), target, dict(provenance or {}))

    def path(self, weights: str, dvc_text: str) -> Path:
        """The folder of an archived checkpoint, verified by its digest; from DVC where it isn't
        here. Raises CheckpointError where it is missing everywhere or not what it should be."""
        target = self._path(weights)
        if weights in self._verified and target.exists():
            return target
        if not target.exists():
            try:
                self._dvc.materialise(dvc_text, target)
            except DataError as error:
                raise CheckpointError(str(error)) from None
        found = digest(target)
        if found != weights:
            raise CheckpointError(
                f"{target}: its files are not those of checkpoint {weights[:12]} (truncated or "
                f"changed: {found[:12]}); delete the folder and DVC restores it"
            )
        self._verified.add(weights)
        return target

    def _path(self, weights: str) -> Path:
        return self._folder / weights[:12]


def digest(folder: Path) -> str:
    """``digest_of`` the files below a folder."""
    found = {}
    for path in (p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if name not in _IGNORED and not name.startswith("."):
            with path.open("rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return digest_of(found)


def digest_of(files: Mapping[str, str]) -> str:
    """sha256 over the names and sha256 of a checkpoint's files (its card left out)."""
    total = hashlib.sha256()
    for name in sorted(files, key=Path):  # as paths sort, not as texts do
        total.update(f"{name}\0{files[name]}\n".encode())
    return total.hexdigest()


def check_complete(folder: Path) -> None:
    """Raises CheckpointError where config or weights are missing or a shard is lacking."""
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder}: no config.json, so no checkpoint")
    index = folder / "model.safetensors.index.json"
    needed = {"model.safetensors"}
    if index.is_file():
        try:
            needed = set(json.loads(index.read_text())["weight_map"].values())
        except (ValueError, KeyError) as error:
            raise CheckpointError(f"{index}: not a shard index ({error})") from None
    for name in sorted(needed | {"tokenizer.json", "tokenizer_config.json"}):
        if not (folder / name).is_file() or (folder / name).stat().st_size == 0:
            raise CheckpointError(f"{folder}: {name} is missing or empty; fetch the model again")


def _from_hub(model: str, folder: Path) -> dict[str, Any]:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    fetch = partial(
        snapshot_download, model, local_dir=folder, ignore_patterns=["*.bin", "*.pth", "*.gguf"]
    )
    try:
        planned: Any = fetch(dry_run=True)
        size = sum(file.file_size or 0 for file in planned if file.will_download)
        require_room(folder, size, f"params.yaml: model.seed: {model}")
        fetch()
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        known = ", ".join(SEEDS)
        raise CheckpointError(
            f"params.yaml: model.seed: {model!r} is no folder here and the Hub has no such model "
            f"for us ({' '.join(str(error).split())[:160]}); name a folder, a Hub id, or: {known}"
        ) from None
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return {"source": f"hub:{model}"}
