"""TIES merges of checkpoints, and what is refused before and after.

mergekit truncates embeddings that don't fit and skips other mismatched tensors with a warning, and
takes a merge that changes nothing for a merge: each is found here and refused with the reason.
Whatever can be told by configurations and file heads is told before a tensor is read.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError
from engine.inheritance import MergeRefused, ties
from engine.inheritance.tensors import Headers, headers

_OWN = ("README.md", "model.safetensors.index.json")
_FLOATS = ("F64", "F32", "F16", "BF16")
_NEAR = 0.01
_ARCHITECTURE = (
    "architectures",
    "model_type",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "layer_types",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "quantization_config",
)
"""What may differ between checkpoints whose tensors have the same shapes."""


def merge(
    sources: list[Path],
    weights: list[float],
    base: Path,
    out: Path,
    density: float,
    normalize: bool,
    scale: float = 1.0,
) -> Mapping[str, Any]:
    """The TIES merge of ``sources`` by ``weights`` (α) over ``base``, the seed checkpoint, written
    to ``out`` complete or not at all; returns it as a configuration of mergekit's.

    Raises MergeRefused where inputs don't fit each other or the result is as good as one of them,
    and CheckpointError where one can't be read or there is no room to write.
    """
    _check_weights(sources, weights, density, scale)
    shares = {path: w for path, w in zip(sources, weights, strict=True) if w > 0}
    _check_inputs([base, *shares])
    _check_room(base, out)
    shutil.rmtree(out, ignore_errors=True)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    settings = ties.Settings(tuple(shares.values()), density, normalize, scale)
    try:
        found = ties.write(base, list(shares), settings, partial)
        _check_result(found, [base, *shares])
        for path in base.iterdir():
            if path.is_file() and path.name not in _OWN and path.suffix != ".safetensors":
                shutil.copyfile(path, partial / path.name)
        partial.replace(out)
    except OSError as error:
        raise CheckpointError(f"{out}: the merge can't be written ({error})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return _config(base, shares, settings)


def _config(base: Path, shares: Mapping[Path, float], settings: ties.Settings) -> dict[str, Any]:
    """What ``mergekit-yaml`` takes; without this machine's paths: a folder's name is its digest."""
    config = json.loads((base / "config.json").read_text("utf-8"))
    return {
        "merge_method": "ties",
        "base_model": base.name,
        "models": [
            {"model": path.name, "parameters": {"weight": share, "density": settings.density}}
            for path, share in shares.items()
        ],
        "parameters": {"normalize": settings.normalize, "lambda": settings.scale},
        "dtype": "float32",
        "out_dtype": config.get("dtype") or config.get("torch_dtype") or "bfloat16",
    }


def _check_weights(
    sources: Sequence[Path], weights: Sequence[float], density: float, scale: float
) -> None:
    if len(sources) != len(weights) or not sources:
        raise MergeRefused(f"{len(weights)} weights for {len(sources)} checkpoints")
    if any(not math.isfinite(w) or w < 0 for w in weights) or abs(sum(weights) - 1) > 1e-6:
        raise MergeRefused(f"weights {weights} are no mixture: each at least 0, together 1")
    if not 0 < density <= 1:
        raise MergeRefused(f"density {density} is not in (0, 1]")
    if not (math.isfinite(scale) and scale > 0):
        raise MergeRefused(f"lambda {scale} is not above 0")


def _check_inputs(folders: Sequence[Path]) -> None:
    base, *rest = folders
    own = headers(base)
    for folder in rest:
        _check_configs(base, folder)
        _check_tensors(base, own, folder, headers(folder))


def _check_room(base: Path, out: Path) -> None:
    needed = sum(header.size for header in headers(base).values())
    out.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(out.parent).free
    if free < needed:
        raise CheckpointError(
            f"{out.parent}: a merge needs {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free; "
            "make room and run again"
        )


def _check_configs(base: Path, folder: Path) -> None:
    pair = f"{base.name} and {folder.name}"
    one, other = (json.loads((p / "config.json").read_text("utf-8")) for p in (base, folder))
    if bool(one.get("tie_word_embeddings")) != bool(other.get("tie_word_embeddings")):
        raise MergeRefused(f"{pair}: only one of them ties its embeddings")
    for where in ("", "text_config"):
        mine, theirs = (c.get(where, {}) if where else c for c in (one, other))
        for key in _ARCHITECTURE:
            if mine.get(key) != theirs.get(key):
                name = f"{where}.{key}".lstrip(".")
                raise MergeRefused(
                    f"{pair} are of unlike architectures: {name} is {mine.get(key)!r} here, "
                    f"{theirs.get(key)!r} there"
                )
    if _vocabulary(base) != _vocabulary(folder):
        raise MergeRefused(f"{pair}: their tokenizers have different vocabularies")


def _check_tensors(base: Path, own: Headers, folder: Path, found: Headers) -> None:
    pair = f"{base.name} and {folder.name}"
    for name in sorted(own.keys() | found.keys()):
        if name not in own or name not in found:
            raise MergeRefused(f"{pair}: only one of them has {name}")
        if own[name].shape != found[name].shape:
            raise MergeRefused(
                f"{pair}: {name} is {own[name].shape} here, {found[name].shape} there"
            )
        kinds = own[name].dtype, found[name].dtype
        if kinds[0] != kinds[1] and not set(kinds) <= set(_FLOATS):
            raise MergeRefused(f"{pair}: {name} is {kinds[0]} here, {kinds[1]} there")
        if not set(kinds) <= {*_FLOATS, "I64", "I32", "BOOL"}:
            raise MergeRefused(f"{pair}: {name} is {kinds[0]}; quantised weights can't be merged")


def _vocabulary(folder: Path) -> Any:
    try:
        tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder}/tokenizer.json: {error}") from None
    return tokenizer.get("model"), tokenizer.get("added_tokens")


def _check_result(found: ties.Found, inputs: Sequence[Path]) -> None:
    for folder, name in zip(inputs, found.not_finite, strict=False):
        if name:
            raise MergeRefused(f"{folder.name}: {name} holds NaN or infinity")
    if found.not_finite[-1]:
        raise MergeRefused(f"the merge made {found.not_finite[-1]} NaN or infinite")
    if not found.distances[0].change:
        raise MergeRefused(f"every source is the base {inputs[0].name}: nothing would change")
    for folder, distance in zip(inputs, found.distances, strict=True):
        if not distance.apart:
            raise MergeRefused(f"the merge equals its input {folder.name}: nothing would change")
        if distance.change and distance.relative < _NEAR:
            raise MergeRefused(
                f"the merge is a near copy of its input {folder.name}: apart by "
                f"{distance.relative:.2%} of that one's change from the base"
            )
