"""Tool schemas: parsing and validating the arguments of a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernel.contract import ToolSchema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MESSAGE_CHARS = 300


def parameters(tools: Iterable[ToolSchema]) -> dict[str, dict[str, Any]]:
    """Tool name -> JSON schema of its arguments."""
    functions = (tool["function"] for tool in tools)
    return {
        function["name"]: function.get("parameters", {"type": "object"}) for function in functions
    }


def parse(arguments: str) -> dict[str, Any] | None:
    """The arguments as an object; None when the text isn't one. Empty text is no argument."""
    try:
        value = json.loads(arguments or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(name: str) -> None:
    raise ValueError(name)


def validate(arguments: str | Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, if they fit the schema. Raises ValueError with a line a model can act on."""
    value = parse(arguments) if isinstance(arguments, str) else dict(arguments)
    if value is None:
        raise ValueError("the arguments are not a JSON object")
    error = next(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value), None)
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path)
        message = error.message[:_MESSAGE_CHARS]
        raise ValueError(f"{where}: {message}" if where else message)
    return value


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(schema))
