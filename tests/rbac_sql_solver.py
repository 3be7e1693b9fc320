"""Solves generated questions by the wordings alone, from what a harness is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

EXTREMES = {"average": "avg", "highest": "max", "lowest": "min"}
Needs = dict[str, set[str]]


def solve(question: str, public: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of final_answer. Raises LookupError for a wording it doesn't know."""
    sql, needs = _query(question, public["tables"])
    granted = _granted(public["policy"])
    access = all(t in granted and columns <= granted[t] for t, columns in needs.items())
    return {"access_granted": access, "sql": sql if access else None}


def _granted(policy: str) -> Needs:
    found = re.findall(r"GRANT SELECT \(([^)]*)\) ON (\w+);", policy)
    return {table: set(columns.split(", ")) for columns, table in found}


def _query(question: str, tables: Mapping[str, list[str]]) -> tuple[str, Needs]:
    known = "|".join(tables)
    if joined := _joined(question, tables, known):
        return joined
    for pattern, build in SINGLE:
        found = re.fullmatch(pattern.replace("TABLE", f"(?P<t>{known})"), question)
        if found:
            parts = {key: value.replace(" ", "_") for key, value in found.groupdict().items()}
            parts["x"] = found.groupdict().get("x", "")
            sql, columns = build(parts)
            return sql, {parts["t"]: {column for column in columns if column}}
    raise LookupError(question)


def _joined(question: str, tables: Mapping[str, list[str]], known: str) -> tuple[str, Needs] | None:
    if found := re.fullmatch(
        rf"List the names of the ({known})s of the ({known}) (\w+)\.", question
    ):
        many, one, name = found.groups()
        select, where, ones = f"{many}.name", f"{one}.name = '{name}'", {"name", "id"}
    elif found := re.fullmatch(
        rf"What is the (.+) of the ({known}) of the ({known}) (\w+)\?", question
    ):
        said, one, many, name = found.groups()
        field = said.replace(" ", "_")
        select, where, ones = f"{one}.{field}", f"{many}.name = '{name}'", {field, "id"}
    else:
        return None
    sql = f"SELECT {select} FROM {one} JOIN {many} ON {one}.id = {many}.{one}_id WHERE {where}"
    return sql, {one: ones, many: {"name", f"{one}_id"}}


SINGLE: Any = (
    (r"How many TABLEs are there\?", lambda p: (f"SELECT count(*) FROM {p['t']}", ())),
    (r"Count the TABLEs\.", lambda p: (f"SELECT count(*) FROM {p['t']}", ())),
    (r"List the names of all TABLEs\.", lambda p: (f"SELECT name FROM {p['t']}", ("name",))),
    (r"What is the name of each TABLE\?", lambda p: (f"SELECT name FROM {p['t']}", ("name",))),
    (
        r"List the (?P<f>[\w ]+) of all TABLEs in (?P<x>\w+)ending order\.",
        lambda p: (f"SELECT {p['f']} FROM {p['t']} ORDER BY {p['f']} {p['x']}", (p["f"],)),
    ),
    (
        r"List the (?P<f>[\w ]+) of all TABLEs\.",
        lambda p: (f"SELECT {p['f']} FROM {p['t']}", (p["f"],)),
    ),
    (
        r"What are the (?P<f>[\w ]+) values of the TABLEs\?",
        lambda p: (f"SELECT {p['f']} FROM {p['t']}", (p["f"],)),
    ),
    (
        r"What is the (?P<x>average|highest|lowest) (?P<f>[\w ]+) of the TABLEs\?",
        lambda p: (f"SELECT {EXTREMES[p['x']]}({p['f']}) FROM {p['t']}", (p["f"],)),
    ),
    (
        r"What is the (?P<f>[\w ]+) of the TABLE named (?P<x>\w+)\?",
        lambda p: (f"SELECT {p['f']} FROM {p['t']} WHERE name = '{p['x']}'", (p["f"], "name")),
    ),
    (
        r"Show the (?P<f>[\w ]+) of the TABLE (?P<x>\w+)\.",
        lambda p: (f"SELECT {p['f']} FROM {p['t']} WHERE name = '{p['x']}'", (p["f"], "name")),
    ),
    (
        r"How many TABLEs have (?P<f>\w+) (?P<x>\w+)\?",
        lambda p: (f"SELECT count(*) FROM {p['t']} WHERE {p['f']} = '{p['x']}'", (p["f"],)),
    ),
    (
        r"List the names of the TABLEs with (?P<f>\w+) above (?P<x>\d+)\.",
        lambda p: (f"SELECT name FROM {p['t']} WHERE {p['f']} > {p['x']}", (p["f"], "name")),
    ),
    (
        r"List the names of the TABLEs with (?P<f>\w+) below (?P<x>\d+)\.",
        lambda p: (f"SELECT name FROM {p['t']} WHERE {p['f']} < {p['x']}", (p["f"], "name")),
    ),
    (
        r"List the names of the TABLEs with (?P<f>\w+) (?P<x>\w+)\.",
        lambda p: (f"SELECT name FROM {p['t']} WHERE {p['f']} = '{p['x']}'", (p["f"], "name")),
    ),
    (
        r"For each (?P<f>\w+), how many TABLEs are there\? Give \w+ and number\.",
        lambda p: (f"SELECT {p['f']}, count(*) FROM {p['t']} GROUP BY {p['f']}", (p["f"],)),
    ),
)
