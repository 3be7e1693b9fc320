"""Commits back into entries. Trailers say what a commit is; exact figures stand in its tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pygit2

from engine.archive import refs, trailers, trees
from engine.archive.commits import AUDIT, DVC, OUTCOME, PROVENANCE, REPORT
from engine.archive.drafts import Adoption
from engine.archive.entries import (
    Audit,
    Checkpoint,
    Entry,
    Evaluation,
    Harness,
    Pair,
    Round,
    TestResult,
)
from engine.archive.refs import Name
from engine.archive.store import Store, TreeFiles
from engine.archive.trailers import Trailers, every, value
from engine.errors import ArchiveError


def name_in(commit: pygit2.Commit) -> Name | None:
    """The Name that a commit's own trailers give it; None when it isn't an archived one."""
    rows = trailers.parse(commit.message)
    kind, slot = value(rows, "Kind"), value(rows, "Slot")
    number = value(rows, "Number" if kind in refs.NUMBERED_KINDS else "Round")
    if kind not in refs.KINDS or not number.isdecimal() or (kind in refs.BRANCH_KINDS and not slot):
        return None
    if kind == "harness" and value(rows, "Check").startswith("rejected"):
        kind = "rejected"
    return Name(kind, int(number), slot)


def read(store: Store, run: str, name: Name, oid: str) -> Entry:
    """The entry of an archived commit. Raises ArchiveError when its content isn't as it must be."""
    commit = store.commit(oid)
    rows = trailers.parse(commit.message)
    common = _common(store, run, name, commit)
    try:
        return _READERS[name.kind](store, commit, rows, common)
    except (KeyError, ValueError, IndexError) as err:
        raise ArchiveError(
            f"{name.kind} {name.label} ({oid}) was not written by this archive: {err!r}"
        ) from err


def _common(store: Store, run: str, name: Name, commit: pygit2.Commit) -> dict[str, Any]:
    tree = str(commit.tree_id)
    return {
        "oid": str(commit.id),
        "ref": refs.short(refs.full(run, name)),
        "label": name.label,
        "round": name.round,
        "slot": name.slot,
        "subject": trailers.subject(commit.message),
        "tree": tree,
        "time": commit.commit_time,
        "files": TreeFiles(store, tree),
    }


def _harness(
    store: Store, commit: pygit2.Commit, rows: Trailers, common: dict[str, Any]
) -> Harness:
    check, budget = value(rows, "Check"), value(rows, "Line-Budget")
    adopts = (text.partition(" ") for text in every(rows, "Adopts"))
    return Harness(
        **common,
        base=value(rows, "Base") or None,
        adopts=tuple(Adoption(oid, mechanism) for oid, _, mechanism in adopts),
        editor=value(rows, "Editor"),
        lines_added=int(value(rows, "Lines-Added")),
        line_budget=int(budget) if budget else None,
        check=check,
        rejected=check.startswith("rejected"),
        duplicate_of=check.split()[-1] if check.startswith("duplicate of ") else None,
        code_id=trees.code_id_of(store, common["tree"]),
        session=value(rows, "Session"),
    )


def _checkpoint(
    store: Store, commit: pygit2.Commit, rows: Trailers, common: dict[str, Any]
) -> Checkpoint:
    entries = trees.root_entries(store, common["tree"])
    return Checkpoint(
        **common,
        method=value(rows, "Method"),
        sources=tuple(str(oid) for oid in commit.parent_ids),
        alpha=tuple(float(text) for text in value(rows, "Alpha").split()),
        trained_under=value(rows, "Trained-Under") or None,
        weights=value(rows, "Weights"),
        dvc=store.blob(entries[DVC][1]).decode(),
        provenance=_json(store, entries, PROVENANCE, common["oid"]),
    )


def _pair(store: Store, commit: pygit2.Commit, rows: Trailers, common: dict[str, Any]) -> Pair:
    outcome = _json(store, trees.root_entries(store, common["tree"]), OUTCOME, common["oid"])
    harness, checkpoint = (str(oid) for oid in commit.parent_ids)
    return Pair(
        **common,
        harness=harness,
        checkpoint=checkpoint,
        split=value(rows, "Split"),
        eval_key=value(rows, "Eval-Key"),
        score=outcome.get("score"),
        timr=outcome.get("timr"),
        metrics=outcome.get("metrics", {}),
        outcome=outcome,
    )


def _round(store: Store, commit: pygit2.Commit, rows: Trailers, common: dict[str, Any]) -> Round:
    parents = [str(oid) for oid in commit.parent_ids]
    kinds = {oid: name.kind for oid in parents if (name := name_in(store.commit(oid)))}
    prefix = (trailers.PREFIX + "cost-").lower()
    costs = {
        key.lower().removeprefix(prefix).replace("-", "_"): float(text)
        for key, text in rows
        if key.lower().startswith(prefix)
    }
    gain = value(rows, "Gain")
    return Round(
        **common,
        parent=next((oid for oid in parents if kinds.get(oid) == "round"), None),
        incumbent=value(rows, "Incumbent"),
        promoted=value(rows, "Promoted") == "yes",
        gain=float(gain) if gain else None,
        pairs=tuple(oid for oid in parents if kinds.get(oid) == "pair"),
        others=tuple(oid for oid in parents if kinds.get(oid) not in ("pair", "round")),
        costs=costs,
    )


def _test(
    store: Store, commit: pygit2.Commit, rows: Trailers, common: dict[str, Any]
) -> TestResult:
    outcome = _json(store, trees.root_entries(store, common["tree"]), OUTCOME, common["oid"])
    return TestResult(
        **common,
        pair=str(commit.parent_ids[0]),
        score=outcome.get("score"),
        eval_key=value(rows, "Eval-Key"),
        outcome=outcome,
    )


def _evaluation(
    store: Store, commit: pygit2.Commit, rows: Trailers, common: dict[str, Any]
) -> Evaluation:
    entries = trees.root_entries(store, common["tree"])
    outcome = _json(store, entries, OUTCOME, common["oid"])
    return Evaluation(
        **common,
        pair=str(commit.parent_ids[0]),
        agent=value(rows, "Agent"),
        split=value(rows, "Split"),
        score=outcome.get("score"),
        eval_key=value(rows, "Eval-Key"),
        outcome=outcome,
        report=_json(store, entries, REPORT, common["oid"]),
    )


def _audit(store: Store, commit: pygit2.Commit, rows: Trailers, common: dict[str, Any]) -> Audit:
    entries = trees.root_entries(store, common["tree"])
    of, *previous = (str(oid) for oid in commit.parent_ids)
    return Audit(
        **common,
        of=of,
        previous=next(iter(previous), None),
        record=_json(store, entries, AUDIT, common["oid"]),
        outcome=_json(store, entries, OUTCOME, common["oid"]) if OUTCOME in entries else None,
    )


def _json(
    store: Store, entries: Mapping[str, tuple[str, str]], file: str, oid: str
) -> dict[str, Any]:
    return trees.from_json(store.blob(entries[file][1]), f"{file} of {oid}")


_READERS = {
    "harness": _harness,
    "rejected": _harness,
    "checkpoint": _checkpoint,
    "pair": _pair,
    "round": _round,
    "test": _test,
    "evaluation": _evaluation,
    "audit": _audit,
}
