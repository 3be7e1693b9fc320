"""What all sessions of a round may read: the archive as it was when the round began, as files.

    INDEX.md                   every harness on a line: outcomes, base, adopted designs
    EVIDENCE.md                the Curator's evidence, whole
    archive.git                the harnesses' own history, for plain git
    harnesses/LABEL/           each one's files, its notes and report among them
    outcomes/LABEL.json        what its pairs measured on the validation set
    rollouts/LABEL.md          those pairs' rollouts in short
    incumbent/rollouts.jsonl   the incumbent's, in full but for answers that earned a score

No reference answer, no test result, no key, and none of this round's siblings.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.archive.entries import Pair
from engine.brief import Evidence
from engine.context import Context
from engine.editors.sessions import index, rollouts
from engine.view import ArchiveView, HarnessSummary
from engine.workspace import write_workspace

SPLIT = "validation"
_KEY = ".key"
_KEPT = ("split", "tasks", "executions", "score", "timr", "scalar", "gates", "metrics", "ends")


def build(context: Context, view: ArchiveView, evidence: Evidence, folder: Path) -> str:
    """The view at ``folder``, made once for a round; returns its key, which changes with anything
    in it."""
    opened = context.opened()
    entries = view.index()
    pairs = _pairs(context, opened.round, {entry.oid for entry in entries})
    key = _key(entries, pairs, evidence)
    if (folder / _KEY).is_file() and (folder / _KEY).read_text() == key:
        return key
    partial = folder.with_name(folder.name + ".partial")
    for old in (folder, partial):
        shutil.rmtree(old, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / index.FILE).write_text(index.whole(entries), "utf-8")
    (partial / "EVIDENCE.md").write_text(evidence.text.rstrip() + "\n", "utf-8")
    _harnesses(context, view, entries, partial)
    _measured(context, entries, pairs, partial)
    _incumbent(context, partial)
    (partial / _KEY).write_text(key)
    partial.rename(folder)
    return key


def branch(entry: HarnessSummary) -> str:
    """What a harness is called in ``archive.git``."""
    return f"rejected/{entry.label}" if entry.rejected else entry.label


def start(entries: Sequence[HarnessSummary], hint: str | None) -> HarnessSummary:
    """The harness that a candidate is a copy of when its session begins: the brief's hint where
    that may be a base, else the incumbent's, else the newest that may."""
    usable = [entry for entry in entries if entry.usable]
    named = [e for e in usable if hint and (e.oid.startswith(hint) or e.label == hint)]
    return next(iter([*named, *(e for e in usable if e.incumbent), *reversed(usable)]))


def _pairs(context: Context, before: int, harnesses: set[str]) -> list[Pair]:
    """Pairs of these harnesses that were measured on V in earlier rounds."""
    return [
        pair
        for pair in context.archive.pairs()
        if pair.round < before and pair.harness in harnesses and pair.split == SPLIT
    ]


def _key(entries: Sequence[HarnessSummary], pairs: Sequence[Pair], evidence: Evidence) -> str:
    parts = [index.whole(entries), *(entry.oid for entry in entries)]
    parts += [*(pair.oid for pair in pairs), evidence.text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _harnesses(
    context: Context, view: ArchiveView, entries: Sequence[HarnessSummary], folder: Path
) -> None:
    for entry in entries:
        write_workspace(view.files(entry.oid), folder / "harnesses" / entry.label)
    branches = {branch(entry): entry.oid for entry in entries}
    context.archive.export(branches, start(entries, None).oid, folder / "archive.git")


def _measured(
    context: Context, entries: Sequence[HarnessSummary], pairs: Sequence[Pair], folder: Path
) -> None:
    for name in ("outcomes", "rollouts"):
        (folder / name).mkdir()
    own: dict[str, list[Pair]] = {}
    for pair in pairs:
        own.setdefault(pair.harness, []).append(pair)
    methods = {c.oid: c.method for c in context.archive.checkpoints()}
    for entry in entries:
        found = own.get(entry.oid, [])
        facts = [_outcome(pair, methods[pair.checkpoint]) for pair in found]
        text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
        (folder / "outcomes" / f"{entry.label}.json").write_text(text, "utf-8")
        if found:
            parts = (f"# {p.label}\n\n{rollouts.summary(context, p)}" for p in found)
            (folder / "rollouts" / f"{entry.label}.md").write_text("\n".join(parts), "utf-8")


def _outcome(pair: Pair, method: str) -> Mapping[str, Any]:
    facts = {name: pair.outcome[name] for name in _KEPT if name in pair.outcome}
    by_task = pair.outcome.get("by_task", {})
    return {"pair": pair.label, "weights": method, **facts, "score by task": by_task}


def _incumbent(context: Context, folder: Path) -> None:
    (folder / "incumbent").mkdir()
    pair = context.archive.pair(context.opened().incumbent)
    found = rollouts.records(context, pair, folder)
    if found is not None:
        (folder / "incumbent" / "rollouts.jsonl").write_bytes(rollouts.shown(found))
