"""TIES of checkpoints, tensor by tensor and in bounded memory, by mergekit's own operator.

mergekit plans a merge by a table of architectures. What the table lacks (Qwen3.5) it takes apart
by building the model, and tensors that the library doesn't load (Qwen3.5's ``mtp.*``) are left out
without a word. Here tensors go by their names in the files, which the inputs share, so nothing
depends on the architecture: what is in the base's files is in the merge's, under the same names and
in the same type.

TIES has two steps. *Trim* keeps the share ``density`` of each source's change that is largest in
magnitude: one threshold for a tensor, found here. *Elect and merge* is element by element, so
mergekit's operator does it on a few rows at a time. A merge holds one tensor's changes in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from engine.inheritance.tensors import file_head, headers, raw

_CHUNK = 4 * 2**20
"""Elements that are merged at a time."""


class Settings(NamedTuple):
    """As mergekit's ``parameters``; ``weights`` (α) in the order of the sources."""

    weights: tuple[float, ...]
    density: float
    normalize: bool
    scale: float


@dataclass
class Distance:
    """Sums of squares over all tensors: of the merge's difference from an input, and of that
    input's own change from the base (of the base: of the largest source's)."""

    apart: float = 0.0
    change: float = 0.0

    @property
    def relative(self) -> float:
        return (self.apart / self.change) ** 0.5 if self.change else 0.0


@dataclass
class Found:
    """What was seen while merging: for the base and each source how far the merge is from it, and
    the first tensor with NaN or infinity in each of them and in the merge ('' for none)."""

    distances: list[Distance]
    not_finite: list[str] = field(default_factory=list)


def write(base: Path, sources: Sequence[Path], settings: Settings, out: Path) -> Found:
    """The TIES merge of ``sources`` over ``base`` into ``out``: files of the same names, tensors,
    order and types as the base's. Inputs must have been found alike."""
    from safetensors import safe_open

    folders = [base, *sources]
    known = [headers(folder) for folder in folders]
    found = Found([Distance() for _ in folders], [""] * (len(folders) + 1))
    out.mkdir(parents=True)
    with ExitStack() as stack:
        files = {
            header.file: stack.enter_context(safe_open(str(header.file), framework="pt"))
            for each in known
            for header in each.values()
        }
        for path in sorted({header.file for header in known[0].values()}):
            names = [name for name, header in known[0].items() if header.file == path]
            with (out / path.name).open("wb") as stream:
                stream.write(file_head(known[0], names))
                for name in names:
                    parts = [_Rows(files[each[name].file], name) for each in known]
                    for data in _merged(name, parts, settings, found):
                        stream.write(data)
    index = base / "model.safetensors.index.json"
    if index.exists():
        (out / index.name).write_bytes(index.read_bytes())
    return found


class _Rows:
    """A tensor, some rows at a time, in fp32."""

    def __init__(self, file: Any, name: str) -> None:
        self._slice, self.tensor = file.get_slice(name), None
        self.shape = tuple(self._slice.get_shape())
        if not self.shape:  # a scalar can't be sliced
            self.tensor = file.get_tensor(name)
        self.step = max(1, _CHUNK * self.shape[0] // max(self.count, 1)) if self.shape else 1

    @property
    def count(self) -> int:
        total = 1
        for size in self.shape:
            total *= size
        return total

    def starts(self) -> range:
        return range(0, self.shape[0] if self.shape else 1, self.step)

    def stored(self, start: int) -> Any:
        return self.tensor if self.tensor is not None else self._slice[start : start + self.step]

    def at(self, start: int) -> Any:
        return self.stored(start).float()


def _merged(name: str, parts: Sequence[_Rows], settings: Settings, found: Found) -> Iterator[bytes]:
    """The bytes of one merged tensor, chunk by chunk."""
    import torch

    base, sources = parts[0], parts[1:]
    if not base.stored(0).is_floating_point():  # a table of indices: found alike, taken as it is
        yield from (raw(base.stored(start)) for start in base.starts())
        return
    trims = [_Trim(base, source, settings.density) for source in sources]
    for start in base.starts():
        stored = base.stored(start)
        whole = [stored.float(), *(source.at(start) for source in sources)]
        kept = [trim.keep(whole[0], each) for trim, each in zip(trims, whole[1:], strict=True)]
        merged = _elect([whole[0], *kept], settings).to(stored.dtype)
        for i, each in enumerate([*whole, merged]):
            if not found.not_finite[i] and not bool(torch.isfinite(each).all()):
                found.not_finite[i] = name
        _compare(whole, merged.float(), found.distances)
        yield raw(merged)


class _Trim:
    """Keeps the ``density`` of a source's changes that are largest in magnitude; of equal ones at
    the threshold the first (mergekit's choice among equals is its sort's)."""

    def __init__(self, base: _Rows, source: _Rows, density: float) -> None:
        self._all = density >= 1 or not base.count
        if self._all:
            return
        size = max(1, int(density * base.count))
        magnitudes = _magnitudes(base, source)
        magnitudes.partition(base.count - size)
        self._threshold = float(magnitudes[base.count - size])
        self._equal = size - int((magnitudes > self._threshold).sum())

    def keep(self, base: Any, source: Any) -> Any:
        """``source`` where its change is kept, ``base`` where it is trimmed."""
        import torch

        if self._all:
            return source
        change = (source - base).abs()
        mask, equal = change > self._threshold, change == self._threshold
        chosen = equal & (equal.flatten().cumsum(0).reshape(equal.shape) <= self._equal)
        self._equal -= int(chosen.sum())
        return torch.where(mask | chosen, source, base)


def _magnitudes(base: _Rows, source: _Rows) -> Any:
    """|source - base| of a whole tensor, flat."""
    import numpy

    flat, end = numpy.empty(base.count, dtype=numpy.float32), 0
    for start in base.starts():
        part = (source.at(start) - base.at(start)).abs_().flatten().numpy()
        flat[end : end + part.size] = part
        end += part.size
    return flat


def _elect(tensors: Sequence[Any], settings: Settings) -> Any:
    """mergekit's TIES operator on trimmed sources, the base first."""
    from mergekit.merge_methods.base import TensorGroup
    from mergekit.merge_methods.registry import get

    ids = range(1, len(tensors))
    return get("ties").merge_group(
        TensorGroup.from_tensors(tensors, base_index=0),
        weight=dict(zip(ids, settings.weights, strict=True)),
        density=dict.fromkeys(ids, 1.0),
        normalize=settings.normalize,
        rescale=False,
        int8_mask=False,
        **{"lambda": settings.scale},
    )


def _compare(whole: Sequence[Any], merged: Any, distances: Sequence[Distance]) -> None:
    changes = [float(((each - whole[0]) ** 2).sum()) for each in whole]
    changes[0] = max(changes)
    for distance, each, change in zip(distances, whole, changes, strict=True):
        distance.apart += float(((merged - each) ** 2).sum())
        distance.change += change
