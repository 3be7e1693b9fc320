"""Tool schemas: parsing and validating the arguments of a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernel import wire
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
    return value if isinstance(value, dict) and wire.shallow(value) else None


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


def example(schema: Mapping[str, Any]) -> Any:
    """A small value that fits a schema: required properties only, first of the choices."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: example(properties.get(name, {})) for name in schema.get("required", ())}
    if kind == "array":
        return [example(schema.get("items", {}))] * int(schema.get("minItems", 0))
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": True, "null": None}.get(kind, "x")
