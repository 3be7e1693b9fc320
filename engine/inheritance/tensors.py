"""What stands in a checkpoint's safetensors files, without building a model."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Header:
    """One tensor: its file, type and shape."""

    file: Path
    dtype: str
    shape: tuple[int, ...]


Headers = dict[str, Header]


def headers(folder: Path) -> Headers:
    """All tensors of a checkpoint. Raises CheckpointError on a truncated or foreign file."""
    found: Headers = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, entry in _read(path).items():
            if name != "__metadata__":
                found[name] = Header(path, entry["dtype"], tuple(entry["shape"]))
    if not found:
        raise CheckpointError(f"{folder}: no tensors there (no *.safetensors)")
    return found


def not_finite(folder: Path) -> str:
    """The first tensor with NaN or infinity in it; '' where all are finite."""
    for name, tensor in _tensors(folder):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return name
    return ""


def equal(one: Path, other: Path) -> bool:
    """Whether two checkpoints hold the same numbers under the same names."""
    mine, theirs = headers(one), headers(other)
    if mine.keys() != theirs.keys():
        return False
    return all(
        a.shape == b.shape and bool((a == b).all())
        for (_, a), (_, b) in zip(_tensors(one), _tensors(other), strict=True)
    )


def _tensors(folder: Path) -> Iterator[tuple[str, Any]]:
    """Name and tensor, in the order of names."""
    from safetensors import safe_open

    for name, header in sorted(headers(folder).items()):
        with safe_open(str(header.file), framework="pt") as stream:
            yield name, stream.get_tensor(name)


def _read(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(_LENGTH.size)
        length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else size
        body = stream.read(length) if length < size else b""
    try:
        entries: dict[str, Any] = json.loads(body)
        tensors = [entry for name, entry in entries.items() if name != "__metadata__"]
        end = max((entry["data_offsets"][1] for entry in tensors), default=0)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{path}: not a safetensors file, or truncated") from None
    if _LENGTH.size + length + end != size:
        raise CheckpointError(f"{path}: truncated: {size} bytes of {_LENGTH.size + length + end}")
    return entries
