"""What a training wrote, as a checkpoint of ours: the source's files with other numbers in them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.errors import TrainerError

_INDEX = "model.safetensors.index.json"


def write(trained: Path, source: Path, out: Path) -> None:
    """The weights in ``trained`` in ``source``'s precision, with ``source``'s other files, at
    ``out``; a shard in memory at a time. Weights that the training knew nothing of (a part for
    speculative decoding, say) are ``source``'s.

    Raises TrainerError where the names aren't those of ``source``, or a number isn't one.
    """
    from safetensors.torch import save_file

    known = {name: path for path in _shards(source) for name in _names(path)}
    shards = _shards(trained)
    carried = _carried(source, known, {name for path in shards for name in _names(path)})
    out.mkdir(parents=True)
    placed: dict[str, str] = {}
    count = len(shards) + bool(carried)
    for number, path in enumerate(shards, start=1):
        tensors = dict(_tensors(path, known))
        save_file(tensors, out / _name(number, count), metadata={"format": "pt"})
        placed |= dict.fromkeys(tensors, _name(number, count))
    if carried:
        save_file(carried, out / _name(count, count), metadata={"format": "pt"})
        placed |= dict.fromkeys(carried, _name(count, count))
    if count > 1:
        index = {"metadata": {}, "weight_map": placed}
        (out / _INDEX).write_text(json.dumps(index, indent=2, sort_keys=True), "utf-8")
    for path in source.iterdir():
        if path.is_file() and path.name != "README.md" and ".safetensors" not in path.name:
            shutil.copyfile(path, out / path.name)


def _name(number: int, count: int) -> str:
    return "model.safetensors" if count == 1 else f"model-{number:05}-of-{count:05}.safetensors"


def _shards(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        raise TrainerError(f"{folder}: no weights were written")
    return found


def _names(path: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return list(file.keys())


def _tensors(path: Path, known: dict[str, Path]) -> Iterator[tuple[str, Any]]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118
            if name not in known:
                raise TrainerError(
                    f"the training wrote {name}, which the checkpoint hasn't (as {path.name}): "
                    "another architecture was loaded; set adaptation.options.model_type"
                )
            tensor = file.get_tensor(name)
            if not bool(tensor.isfinite().all()):
                raise TrainerError(f"{name} is no number any more; lower adaptation.learning_rate")
            yield name, tensor.to(_dtype(known[name], name)).contiguous()


def _dtype(path: Path, name: str) -> Any:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.get_slice(name)[:0].dtype


def _carried(source: Path, known: dict[str, Path], trained: set[str]) -> dict[str, Any]:
    """What the training left out, less an output layer that is the embedding."""
    from safetensors import safe_open

    names = sorted(set(known) - trained)
    if json.loads((source / "config.json").read_text("utf-8")).get("tie_word_embeddings"):
        names = [name for name in names if name != "lm_head.weight"]
    made = {}
    for name in names:
        with safe_open(known[name], framework="pt") as file:
            made[name] = file.get_tensor(name)
    return made
