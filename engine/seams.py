"""One table from name to implementation for each seam; it also takes a dotted path."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

from engine.errors import ConfigError


def find(key: str, name: str, table: Mapping[str, str]) -> Any:
    """The object that ``name`` stands for in ``table`` (name -> ``module:attribute``), or at
    ``name`` itself where it is such a path. Imported only now.

    Raises ConfigError naming ``key`` (the parameter) and the known names.
    """
    path = table.get(name, name)
    module, colon, attribute = path.partition(":")
    if not colon:
        near = difflib.get_close_matches(name, table, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"params.yaml: {key}: nothing is called {name!r}; {hint}"
            f"known: {', '.join(sorted(table))}, or a path module:NAME"
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"params.yaml: {key}: {path}: {error}") from None
