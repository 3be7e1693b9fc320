"""Endless databases, policies and questions, so that the domain runs with no files.

Everything is drawn from a secret salt, so that the public code gives nobody the answers. Training
and validation share databases, as Spider's do: a keyed hash gives every (database, question) to
one of them. Test tasks have databases of their own. Databases take turns, four tasks each.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from engine.domains import Task
from engine.domains.rbac_sql.item import Item, Source, make_task
from engine.domains.rbac_sql.making import Made, make
from engine.domains.rbac_sql.question import Question, draw
from engine.domains.rbac_sql.scoring import ALLOWED, DENIED
from engine.domains.rbac_sql.subjects import ROLES
from engine.domains.split import TaskSplits, checked_sizes
from engine.errors import ConfigError

TASKS_PER_DATABASE = 4
ALLOWED_SHARE = 0.55
"""More than the real data's 0.41: a small model has more to learn from answering."""

_PATIENCE = 20
"""Draws after which a permission that no role of the database may have is drawn again."""

_SHARED, _OWN = 0, 1_000_000
"""The first numbers of databases of training and validation, and of those of the test split."""


@dataclass(frozen=True)
class Secret:
    """The salt and seed of a run: they key every draw."""

    salt: str
    seed: int

    def number(self, *parts: object) -> int:
        """A number that only who has the salt can tell."""
        message = json.dumps([self.seed, *parts]).encode()
        return int.from_bytes(hmac.digest(self.salt.encode(), message, hashlib.sha256)[:8])

    def split(self, group: str) -> str:
        """The split that a question about a shared database belongs to."""
        return "validation" if self.number("owner", group) % 3 == 0 else "train"


@dataclass
class _Part:
    """The items of a split, with their databases."""

    items: list[Item] = field(default_factory=list)
    databases: dict[str, Made] = field(default_factory=dict)


def generate(salt: str, seed: int, sizes: Mapping[str, int]) -> TaskSplits:
    """Splits for (salt, seed), disjoint by id and by (database, question).

    Raises ConfigError for an empty salt or sizes that make no sense.
    """
    if not salt:
        raise ConfigError("salt: generated splits need a secret that is not empty")
    secret, wanted = Secret(salt, seed), checked_sizes(sizes)
    parts = {split: _part(secret, split, size) for split, size in wanted.items()}
    known: dict[str, set[str]] = defaultdict(set)
    for item in parts["train"].items:
        known[item.database].add(item.role)
    return TaskSplits(
        train=_tasks(parts["train"], known),
        validation=_tasks(parts["validation"], known),
        test=_tasks(parts["test"], known),
    )


def _part(secret: Secret, split: str, size: int) -> _Part:
    part, rng = _Part(), random.Random(secret.number("split", split))
    for made in _databases(secret, _OWN if split == "test" else _SHARED):
        if len(part.items) >= size:
            return part
        part.databases[made.name] = made
        seen: set[str] = set()
        for _ in range(min(TASKS_PER_DATABASE, size - len(part.items))):
            item = _item(secret, split, rng, made, seen)
            seen.add(item.group)
            part.items.append(item)
    raise AssertionError("databases never end")


def _databases(secret: Secret, first: int) -> Iterator[Made]:
    number = first
    while True:
        yield make(random.Random(secret.number("database", number)), number)
        number += 1


def _item(secret: Secret, split: str, rng: random.Random, made: Made, seen: set[str]) -> Item:
    """A question that belongs to the split, under a role that is drawn to allow or deny it."""
    permission = ALLOWED
    for attempt in itertools.count():
        if attempt % _PATIENCE == 0:
            permission = ALLOWED if rng.random() < ALLOWED_SHARE else DENIED
        question = draw(rng, made)
        roles = [role for role in ROLES if _permission(made, role, question) == permission]
        item = Item(
            id="",
            database=made.name,
            role=rng.choice(roles) if roles else "",
            question=question.text,
            gold_sql=question.sql,
            permission=permission,
            split=split,
            usable=True,
        )
        owned = split == "test" or secret.split(item.group) == split
        if roles and owned and item.group not in seen:
            mark = secret.number("id", split, item.group, item.role)
            return replace(item, id=f"{made.name}_{f'{mark:016x}'[:10]}")
    raise AssertionError("questions never end")


def _permission(made: Made, role: str, question: Question) -> str:
    grants = made.policy.grants(role)
    for table, columns in question.needs.items():
        if table not in grants or not columns <= set(grants[table]):
            return DENIED
    return ALLOWED


def _tasks(part: _Part, known: Mapping[str, set[str]]) -> tuple[Task, ...]:
    sources = {
        name: Source({"script": made.script}, made.schema, made.policy)
        for name, made in part.databases.items()
    }
    return tuple(
        make_task(item, sources[item.database], sorted(known.get(item.database, ())))
        for item in part.items
    )
