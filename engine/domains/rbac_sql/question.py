"""Questions about a generated database, each with its reference query."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.domains.rbac_sql.making import Made
from engine.domains.rbac_sql.subjects import Field


@dataclass(frozen=True)
class Question:
    """What is asked, the reference query, and the columns it reads by table."""

    text: str
    sql: str
    needs: Mapping[str, frozenset[str]]


def draw(rng: random.Random, made: Made) -> Question:
    """A question of a random form that the database can answer."""
    forms = JOINS if made.two_tables and rng.random() < 0.3 else SINGLE
    table = rng.choice(list(made.fields))
    return rng.choice(forms)(rng, made, table)


def _number(rng: random.Random, made: Made, table: str) -> Field | None:
    return _one(rng, [field for field in made.fields[table] if field.numeric])


def _category(rng: random.Random, made: Made, table: str) -> Field | None:
    return _one(rng, [field for field in made.fields[table] if not field.numeric])


def _one(rng: random.Random, fields: Sequence[Field]) -> Field | None:
    return rng.choice(fields) if fields else None


def _stored(rng: random.Random, made: Made, table: str, column: str) -> str:
    return str(rng.choice(made.rows[table])[column])


def _needs(table: str, *columns: str) -> dict[str, frozenset[str]]:
    return {table: frozenset(columns)}


def _count(rng: random.Random, made: Made, table: str) -> Question:
    text = rng.choice((f"How many {table}s are there?", f"Count the {table}s."))
    return Question(text, f"SELECT count(*) FROM {table}", _needs(table))


def _list(rng: random.Random, made: Made, table: str) -> Question:
    field = rng.choice(made.fields[table])
    wording = rng.choice(("List the {} of all {}s.", "What are the {} values of the {}s?"))
    return Question(
        wording.format(field.said, table),
        f"SELECT {field.name} FROM {table}",
        _needs(table, field.name),
    )


def _names(rng: random.Random, made: Made, table: str) -> Question:
    text = rng.choice((f"List the names of all {table}s.", f"What is the name of each {table}?"))
    return Question(text, f"SELECT name FROM {table}", _needs(table, "name"))


def _lookup(rng: random.Random, made: Made, table: str) -> Question:
    field, name = rng.choice(made.fields[table]), _stored(rng, made, table, "name")
    wording = rng.choice(("What is the {} of the {} named {}?", "Show the {} of the {} {}."))
    return Question(
        wording.format(field.said, table, name),
        f"SELECT {field.name} FROM {table} WHERE name = '{name}'",
        _needs(table, field.name, "name"),
    )


def _filtered(rng: random.Random, made: Made, table: str) -> Question:
    field = _category(rng, made, table)
    if field is None:
        return _above(rng, made, table)
    value = _stored(rng, made, table, field.name)
    if rng.random() < 0.5:
        return Question(
            f"How many {table}s have {field.said} {value}?",
            f"SELECT count(*) FROM {table} WHERE {field.name} = '{value}'",
            _needs(table, field.name),
        )
    return Question(
        f"List the names of the {table}s with {field.said} {value}.",
        f"SELECT name FROM {table} WHERE {field.name} = '{value}'",
        _needs(table, field.name, "name"),
    )


def _above(rng: random.Random, made: Made, table: str) -> Question:
    field = _number(rng, made, table)
    if field is None:
        return _names(rng, made, table)
    bound = rng.randint(field.low, field.high)
    word, sign = rng.choice((("above", ">"), ("below", "<")))
    return Question(
        f"List the names of the {table}s with {field.said} {word} {bound}.",
        f"SELECT name FROM {table} WHERE {field.name} {sign} {bound}",
        _needs(table, field.name, "name"),
    )


def _extreme(rng: random.Random, made: Made, table: str) -> Question:
    field = _number(rng, made, table)
    if field is None:
        return _list(rng, made, table)
    said, function = rng.choice((("average", "avg"), ("highest", "max"), ("lowest", "min")))
    return Question(
        f"What is the {said} {field.said} of the {table}s?",
        f"SELECT {function}({field.name}) FROM {table}",
        _needs(table, field.name),
    )


def _ordered(rng: random.Random, made: Made, table: str) -> Question:
    field = _number(rng, made, table)
    if field is None:
        return _list(rng, made, table)
    said, direction = rng.choice((("ascending", ""), ("descending", " DESC")))
    return Question(
        f"List the {field.said} of all {table}s in {said} order.",
        f"SELECT {field.name} FROM {table} ORDER BY {field.name}{direction}",
        _needs(table, field.name),
    )


def _grouped(rng: random.Random, made: Made, table: str) -> Question:
    field = _category(rng, made, table)
    if field is None:
        return _count(rng, made, table)
    return Question(
        f"For each {field.said}, how many {table}s are there? Give {field.said} and number.",
        f"SELECT {field.name}, count(*) FROM {table} GROUP BY {field.name}",
        _needs(table, field.name),
    )


def _joined(
    made: Made, selected: str, condition: str, one: Sequence[str], many: Sequence[str]
) -> tuple[str, dict[str, frozenset[str]]]:
    subject = made.subject
    key = f"{subject.one}_id"
    sql = (
        f"SELECT {selected} FROM {subject.many} JOIN {subject.one} "
        f"ON {subject.many}.{key} = {subject.one}.id WHERE {condition}"
    )
    needs = {subject.one: frozenset(["id", *one]), subject.many: frozenset([key, *many])}
    return sql, needs


def _members(rng: random.Random, made: Made, table: str) -> Question:
    one, many = made.subject.one, made.subject.many
    name = _stored(rng, made, one, "name")
    sql, needs = _joined(made, f"{many}.name", f"{one}.name = '{name}'", ["name"], ["name"])
    return Question(f"List the names of the {many}s of the {one} {name}.", sql, needs)


def _owner(rng: random.Random, made: Made, table: str) -> Question:
    one, many = made.subject.one, made.subject.many
    field, name = rng.choice(made.fields[one]), _stored(rng, made, many, "name")
    sql, needs = _joined(
        made, f"{one}.{field.name}", f"{many}.name = '{name}'", [field.name], ["name"]
    )
    return Question(f"What is the {field.said} of the {one} of the {many} {name}?", sql, needs)


Form = Callable[[random.Random, Made, str], Question]
SINGLE: tuple[Form, ...] = (
    _count,
    _list,
    _names,
    _lookup,
    _lookup,
    _filtered,
    _filtered,
    _above,
    _extreme,
    _ordered,
    _grouped,
)
JOINS: tuple[Form, ...] = (_members, _owner)
