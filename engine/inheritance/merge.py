"""TIES merges of checkpoints by mergekit, and what is refused before and after.

mergekit truncates embeddings that don't fit and skips other mismatched tensors with a warning, and
takes a merge that changes nothing for a merge: each is found here and refused with the reason.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError
from engine.inheritance import MergeRefused
from engine.inheritance.tensors import Headers, equal, headers, not_finite

_WRITTEN = ("config.json", "README.md")


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
    to ``out`` complete or not at all; returns mergekit's configuration.

    Raises MergeRefused where inputs don't fit each other or the result equals one of them, and
    CheckpointError where mergekit fails.
    """
    _check_weights(sources, weights, density, scale)
    used = [path for path, weight in zip(sources, weights, strict=True) if weight > 0]
    _check_inputs([base, *used])
    shutil.rmtree(out, ignore_errors=True)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        config = ties(sources, weights, base, partial, density, normalize, scale)
        _check_result(partial, [base, *used])
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return config


def ties(
    sources: Sequence[Path],
    weights: Sequence[float],
    base: Path,
    out: Path,
    density: float,
    normalize: bool,
    scale: float = 1.0,
) -> dict[str, Any]:
    """The merge itself, unchecked: TIES in fp32, written in the base's own dtype."""
    dtype = json.loads((base / "config.json").read_text("utf-8")).get("dtype", "bfloat16")
    config: dict[str, Any] = {
        "merge_method": "ties",
        "base_model": str(base),
        "models": [
            {"model": str(path), "parameters": {"weight": weight, "density": density}}
            for path, weight in zip(sources, weights, strict=True)
            if weight > 0
        ],
        "parameters": {"normalize": normalize, "lambda": scale},
        "dtype": "float32",
        "out_dtype": dtype,
    }
    _run(config, out)
    for path in base.iterdir():
        if path.is_file() and path.name not in _WRITTEN and ".safetensors" not in path.name:
            shutil.copyfile(path, out / path.name)
    return {**config, "base_model": base.name, "models": _named(config["models"])}


def _named(models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Without this machine's paths: a checkpoint's folder is named by its digest."""
    return [{**model, "model": Path(model["model"]).name} for model in models]


def _run(config: Mapping[str, Any], out: Path) -> None:
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions
    from transformers.utils import logging

    logging.set_verbosity_error()
    options = MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True)
    try:
        run_merge(MergeConfiguration.model_validate(config), str(out), options)
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        raise CheckpointError(
            f"mergekit could not merge {', '.join(m['model'] for m in _named(config['models']))}: "
            f"{type(error).__name__}: {error}"
        ) from error
    single = out / "model-00001-of-00001.safetensors"
    if single.exists():
        single.replace(out / "model.safetensors")
        (out / "model.safetensors.index.json").unlink(missing_ok=True)


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
        _check_alike(base, own, folder, headers(folder))
    for folder in folders:
        if bad := not_finite(folder):
            raise MergeRefused(f"{folder.name}: {bad} holds NaN or infinity")
    if all(equal(base, folder) for folder in rest):
        raise MergeRefused(f"every source is the base {base.name}: nothing would change")


def _check_alike(base: Path, own: Headers, folder: Path, found: Headers) -> None:
    pair = f"{base.name} and {folder.name}"
    tied = [json.loads((p / "config.json").read_text("utf-8")) for p in (base, folder)]
    ties_of = [bool(config.get("tie_word_embeddings")) for config in tied]
    if ties_of[0] != ties_of[1]:
        raise MergeRefused(f"{pair}: only one of them ties its embeddings")
    if _vocabulary(base) != _vocabulary(folder):
        raise MergeRefused(f"{pair}: their tokenizers have different vocabularies")
    for name in sorted(own.keys() | found.keys()):
        if name not in own or name not in found:
            raise MergeRefused(f"{pair}: only one of them has {name}")
        if own[name].shape != found[name].shape:
            raise MergeRefused(
                f"{pair}: {name} is {own[name].shape} here, {found[name].shape} there"
            )


def _vocabulary(folder: Path) -> Any:
    try:
        tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder}/tokenizer.json: {error}") from None
    return tokenizer.get("model"), tokenizer.get("added_tokens")


def _check_result(out: Path, inputs: Sequence[Path]) -> None:
    if bad := not_finite(out):
        raise MergeRefused(f"the merge made {bad} NaN or infinite")
    missing = sorted(headers(inputs[0]).keys() - headers(out).keys())
    if missing:
        raise CheckpointError(f"mergekit left out {missing[0]} and {len(missing) - 1} more tensors")
    for folder in inputs:
        if equal(out, folder):
            raise MergeRefused(f"the merge equals its input {folder.name}: nothing would change")
