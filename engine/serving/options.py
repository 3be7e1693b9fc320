"""``options`` of a section: what one backend or trainer alone understands, checked before anything
starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from engine.errors import ConfigError

Options = TypeVar("Options")


def checked(
    kind: type[Options], raw: Mapping[str, Any], section: str = "serving.options"
) -> Options:
    """``raw`` as the dataclass ``kind``. Raises ConfigError on a key that it lacks, or on a value
    that isn't of the kind of its default."""
    known = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]
    for key, value in raw.items():
        if key not in known:
            names = ", ".join(known)
            raise ConfigError(f"{section}: unknown key {key!r}; known: {names or 'none'}")
        default = known[key]
        if isinstance(default, int | str) and not isinstance(value, type(default)):
            wanted = type(default).__name__
            raise ConfigError(f"{section}.{key}: expected {wanted}, got {value!r}")
    return kind(**raw)
