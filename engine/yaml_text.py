"""YAML that people write, read strictly."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.constructor import ConstructorError

from engine.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping: YAML would quietly take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in first:
                raise ConstructorError(
                    None, None, f"line {line}: {key.value!r} stands in line {first[key.value]}, too"
                )
            first[key.value] = line
        return super().construct_mapping(node, deep)


def mapping(text: str, name: str) -> dict[Any, Any]:
    """The mapping that the text holds ({} where it is empty). Raises ConfigError, which begins
    with ``name``."""
    try:
        raw = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, AttributeError, KeyError, RecursionError) as error:
        # So the reader fails at a word that looks like a date or number, or is tagged as one.
        raise ConfigError(f"{name}: can't be read ({error}); quote what is text") from None
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{name}: expected a mapping of parameters, got {type(raw).__name__}")
    return raw
