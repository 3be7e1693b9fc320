"""What stands in a checkpoint's safetensors files, without building a model."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Header:
    """One tensor: its file, type, shape and bytes."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    size: int


Headers = dict[str, Header]


def headers(folder: Path) -> Headers:
    """All tensors of a checkpoint. Raises CheckpointError on a truncated or foreign file."""
    found: Headers = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, entry in _read(path).items():
            if name != "__metadata__":
                start, end = entry["data_offsets"]
                found[name] = Header(path, entry["dtype"], tuple(entry["shape"]), end - start)
    if not found:
        raise CheckpointError(f"{folder}: no tensors there (no *.safetensors)")
    return found


def file_head(known: Headers, names: Sequence[str]) -> bytes:
    """The head of a safetensors file that holds ``names`` one after the other."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        header = known[name]
        start, end = end, end + header.size
        shape, bounds = list(header.shape), [start, end]
        entries[name] = {"dtype": header.dtype, "shape": shape, "data_offsets": bounds}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text


def raw(tensor: Any) -> bytes:
    """A tensor as it stands in a file."""
    import torch

    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)


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
