"""Splits from the role-conditioned Spider files.

A folder holds ``items.jsonl`` (a question under a role a line), ``policies.json`` (database ->
roles -> table -> columns) and ``databases/*.sqlite``. Training and validation tasks come from the
items of Spider's train split, test tasks from its dev split. Every question occurs under several
roles; all of them go to one split.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.domains import Task
from engine.domains.rbac_sql.item import Item, Source, make_task, parse_item
from engine.domains.rbac_sql.schema import Policy
from engine.domains.rbac_sql.sqlite_file import schema_of
from engine.domains.reading import contents, fault, mapping, parsed, sequence
from engine.domains.split import TaskSplits, checked_sizes, interleave
from engine.errors import DataError

ITEMS, POLICIES, DATABASES = "items.jsonl", "policies.json", "databases"
_GET = (
    "the items and policies are github.com/klisura-code/LLM-Access-Control-Datasets "
    "(spider-access-control), the databases Spider's (github.com/taoyds/spider)"
)


@dataclass(frozen=True)
class Folder:
    """What a folder holds: its items, the source of each database they need, one line for each
    bad row that was skipped, and the ids of the rows that are no items here."""

    path: Path
    items: Sequence[Item]
    sources: Mapping[str, Source]
    skipped: Sequence[str] = ()
    left_out: frozenset[str] = frozenset()


def load(
    data: Path, seed: int, sizes: Mapping[str, int], *, skip_bad_rows: bool = False
) -> TaskSplits:
    """Disjoint splits by id and by (database, question), the same for the same seed and sizes.
    With ``skip_bad_rows`` malformed rows are left out and listed in ``skipped``.

    Raises DataError for a missing file, database or policy, a malformed row, or more tasks asked
    than there are; ConfigError for sizes that make no sense.
    """
    wanted = checked_sizes(sizes)
    folder = read(data, skip_bad_rows=skip_bad_rows)
    groups = {split: _questions(folder.items, split, seed) for split in ("train", "dev")}
    validation, rest = _take(groups["train"], wanted["validation"], folder, "validation")
    train, _ = _take(rest, wanted["train"], folder, "train")
    test, _ = _take(groups["dev"], wanted["test"], folder, "test")
    known: dict[str, dict[str, None]] = defaultdict(dict)
    for item in train:
        known[item.database][item.role] = None
    return TaskSplits(
        train=_tasks(train, folder, known),
        validation=_tasks(validation, folder, known),
        test=_tasks(test, folder, known),
        skipped=folder.skipped,
    )


def read(data: Path, *, everything: bool = False, skip_bad_rows: bool = False) -> Folder:
    """The folder's usable items, or all with ``everything``. With ``skip_bad_rows`` a malformed
    row, or one whose database or policy is missing, is listed instead of raised."""
    if not data.is_dir():
        raise DataError(
            f"{data}: no such folder; it must hold {ITEMS}, {POLICIES} and {DATABASES}/: {_GET}"
        )
    policies = _policies(data / POLICIES)
    items: dict[str, Item] = {}
    sources: dict[str, Source] = {}
    skipped: list[str] = []
    left_out: set[str] = set()
    for where, line in _lines(data / ITEMS):
        row: Mapping[str, Any] = {}
        try:
            row = _object(line, where)
            item = parse_item(row, where)
            if item.id in items or item.id in left_out:
                raise fault(where, "id", "an id not used before in this file", item.id)
            if not (item.usable or everything):
                left_out.add(item.id)
                continue
            if item.database not in sources:
                sources[item.database] = _source(data, item.database, policies, where)
            _check_role(item, sources[item.database], where)
            items[item.id] = item
        except DataError as error:
            if not skip_bad_rows:
                raise
            skipped.append(str(error))
            left_out.add(str(row.get("id")))
    return Folder(data, list(items.values()), sources, skipped, frozenset(left_out - items.keys()))


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(contents(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line


def _object(line: str, where: str) -> Mapping[str, Any]:
    try:
        row = parsed(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: line: expected JSON ({error})") from error
    return mapping(row, "line", where)


def _policies(path: Path) -> Mapping[str, Any]:
    try:
        found = parsed(contents(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected JSON ({error})") from error
    return mapping(found, "file", str(path))


def _source(data: Path, database: str, policies: Mapping[str, Any], where: str) -> Source:
    path = data / DATABASES / f"{database}.sqlite"
    if not path.is_file():
        raise DataError(
            f"{where}: db_id: database {database} is missing: put it at {path}, or leave out rows "
            f"like this one; {_GET}"
        )
    if database not in policies:
        raise DataError(
            f"{where}: db_id: {data / POLICIES} has no policy for {database}; "
            f"restore the file: {_GET}"
        )
    policy = _policy(policies[database], f"{data / POLICIES}: {database}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    database_file = {"file": str(path.resolve()), "sha256": digest}
    return Source(database_file, schema_of(path), policy)


def _policy(value: Any, where: str) -> Policy:
    roles: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    for role, tables in mapping(
        mapping(value, "policy", where).get("roles"), "roles", where
    ).items():
        roles[role] = {}
        for table, columns in mapping(tables, f"roles.{role}", where).items():
            field = f"roles.{role}.{table}"
            for column in sequence(columns, field, where):
                if not isinstance(column, str):
                    raise fault(where, field, "a list of column names", columns)
            roles[role][table] = {"select": tuple(columns)}
    return Policy(roles)


def _check_role(item: Item, source: Source, where: str) -> None:
    if item.role not in source.policy.roles:
        raise fault(where, "role", f"a role of {item.database}'s policy", item.role)


def _questions(items: Sequence[Item], split: str, seed: int) -> list[list[Item]]:
    """The items of a split, one list for each question under its roles; databases take turns, so
    that no large one fills a small split."""
    groups: dict[str, dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.split == split:
            groups[item.database][item.group].append(item)
    rng = random.Random(f"{split} {seed}")
    ranked = []
    for place, database in enumerate(rng.sample(sorted(groups), len(groups))):
        questions = list(groups[database].values())
        rng.shuffle(questions)
        ranked += [(turn, place, question) for turn, question in enumerate(questions)]
    return [question for _, _, question in sorted(ranked, key=lambda each: each[:2])]


def _take(
    questions: Sequence[list[Item]], size: int, folder: Folder, split: str
) -> tuple[list[Item], Sequence[list[Item]]]:
    """``size`` items of the first questions, and the questions left; a question that was begun is
    used up. Allowed and denied items are spread evenly."""
    taken: list[Item] = []
    used = 0
    while len(taken) < size and used < len(questions):
        taken += questions[used]
        used += 1
    if len(taken) < size:
        raise DataError(
            f"{folder.path / ITEMS}: {split}: {size} tasks asked, {len(taken)} there are; "
            f"lower sizes.{split}"
        )
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in taken[:size]:
        groups[item.permission].append(item)
    return interleave(groups), questions[used:]


def _tasks(
    items: Sequence[Item], folder: Folder, known: Mapping[str, Mapping[str, None]]
) -> tuple[Task, ...]:
    return tuple(
        make_task(item, folder.sources[item.database], sorted(known.get(item.database, ())))
        for item in items
    )
