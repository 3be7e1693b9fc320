"""What is wrong in a user's parameters, in one line."""

from __future__ import annotations

import difflib
from typing import TypeGuard, get_args

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, whole: type[BaseModel]) -> str:
    """The first thing that is wrong: its key, and the nearest known one where it is unknown.
    ``whole`` is the model that was to be made."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        got = first.get("input")
        shown = f" (got {got!r})" if not isinstance(got, dict | BaseModel) else ""
        message = first["msg"].removeprefix("Value error, ")
        return f"{key + ': ' if key else ''}{message}{shown}"
    section = whole
    for part in first["loc"][:-1]:
        known = section.model_fields.get(str(part))
        if known is None:  # a key of a table such as llm.prices
            continue
        inner = (known.annotation, *get_args(known.annotation))
        section = next((each for each in inner if _is_section(each)), section)
    near = difflib.get_close_matches(str(first["loc"][-1]), section.model_fields, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(section.model_fields)}"
    return f"unknown key {key!r}{hint}"


def _is_section(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
