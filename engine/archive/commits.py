"""Drafts into commits: the parents, tree and trailers of each kind.

harness     [base, adopted...]                     the workspace itself
checkpoint  [source checkpoints...]                checkpoint.dvc provenance.json README.md
pair        [harness, checkpoint]                  harness/ checkpoint.dvc outcome.json rollouts.dvc
round       [previous round, pairs..., others...]  the incumbent pair's tree, the round's files
test        [pair]                                 outcome.json rollouts.dvc
evaluation  [pair]                                 outcome.json rollouts.dvc report.json
audit       [what was audited, previous audit]     audit.json outcome.json
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from engine.archive import refs, trailers, trees
from engine.archive.drafts import (
    AuditDraft,
    CheckpointDraft,
    EvaluationDraft,
    HarnessDraft,
    PairDraft,
    RoundDraft,
    TestDraft,
)
from engine.archive.objects import TREE_MODE, Staging
from engine.archive.refs import Name
from engine.archive.store import Store
from engine.errors import ArchiveError

Draft = HarnessDraft | CheckpointDraft | PairDraft | RoundDraft | TestDraft
Rows = list[tuple[str, object]]
HARNESS_FOLDER = "harness"
DVC, PROVENANCE, CARD = "checkpoint.dvc", "provenance.json", "README.md"
OUTCOME, ROLLOUTS = "outcome.json", "rollouts.dvc"
REPORT, AUDIT = "report.json", "audit.json"


@dataclass(frozen=True)
class Content:
    """A commit about to be: everything but identity and time."""

    tree: str
    parents: tuple[str, ...]
    subject: str
    rows: Rows

    @property
    def message(self) -> str:
        return trailers.write(self.subject, self.rows)


def name_of(draft: HarnessDraft | CheckpointDraft | PairDraft) -> Name:
    """What the draft will be called. Raises ArchiveError for a malformed or unlike name."""
    if isinstance(draft, HarnessDraft):
        kind = "rejected" if draft.rejected else "harness"
        return refs.named(kind, draft.round, draft.slot)
    kind = "checkpoint" if isinstance(draft, CheckpointDraft) else "pair"
    name = refs.labelled(kind, draft.name)
    if name.round != draft.round:
        raise ArchiveError(f"{kind} {draft.name} belongs to round {name.round}, not {draft.round}")
    return name


def workspace(store: Store, staging: Staging, draft: HarnessDraft) -> trees.Workspace:
    """Stage a harness's files; those it shares with its base are there already."""
    trees.check_paths(draft.files, f"harness r{draft.round:03d}-{draft.slot}")
    if draft.base:
        staging.assume(trees.known_oids(store, str(store.commit(draft.base).tree_id)))
    return trees.write_workspace(staging, draft.files)


def harness(draft: HarnessDraft, tree: str) -> Content:
    """The workspace as it is; ``duplicate_of`` must be settled."""
    rows: Rows = [
        *_head("harness", draft.round, draft.slot),
        ("Coevo-Base", draft.base or ""),
        *(("Coevo-Adopts", f"{a.oid} {a.mechanism}") for a in draft.adopts),
        ("Coevo-Editor", draft.editor),
        ("Coevo-Lines-Added", draft.lines_added),
        ("Coevo-Line-Budget", "" if draft.line_budget is None else draft.line_budget),
        ("Coevo-Check", _check(draft)),
        ("Coevo-Session", flow(draft.session) if draft.session else ""),
    ]
    base = [draft.base] if draft.base else []
    parents = (*base, *(adoption.oid for adoption in draft.adopts))
    return Content(tree, parents, draft.subject, rows)


def flow(dvc_text: str) -> str:
    """A .dvc text on one line, as a trailer holds it; it means the same."""
    return json.dumps(yaml.safe_load(dvc_text), separators=(", ", ": "))


def _check(draft: HarnessDraft) -> str:
    """``passed``, ``rejected: why`` or ``duplicate of <hash>``; reading back relies on the form."""
    if draft.rejected:
        return "rejected: " + (draft.check.removeprefix("rejected").lstrip(": ") or "no reason")
    if draft.duplicate_of:
        return f"duplicate of {draft.duplicate_of}"
    check = trailers.clean(draft.check)
    if check.startswith(("rejected", "duplicate of ")):
        raise ArchiveError(
            f"harness r{draft.round:03d}-{draft.slot}: check {check!r} needs rejected=True "
            "or duplicate_of"
        )
    return check


def checkpoint(staging: Staging, draft: CheckpointDraft, name: Name) -> Content:
    """Raises ArchiveError when the method and the number of sources don't fit."""
    wanted = {"seed": (0, 0), "sft": (1, 1), "ties": (1, 10**6)}
    if draft.method not in wanted:
        raise ArchiveError(
            f"checkpoint {draft.name}: method {draft.method!r} is not one of {list(wanted)}"
        )
    least, most = wanted[draft.method]
    if not least <= len(draft.sources) <= most:
        raise ArchiveError(
            f"checkpoint {draft.name}: {draft.method} with {len(draft.sources)} sources"
        )
    if draft.method == "ties" and len(draft.alpha) != len(draft.sources):
        raise ArchiveError(f"checkpoint {draft.name}: one alpha for each of its sources is needed")
    provenance = trees.to_json(draft.provenance, f"provenance of {draft.name}")
    files = {DVC: draft.dvc.encode(), PROVENANCE: provenance, CARD: draft.card.encode()}
    rows: Rows = [
        *_head("checkpoint", name.round, name.slot),
        ("Coevo-Method", draft.method),
        ("Coevo-Alpha", " ".join(repr(float(a)) for a in draft.alpha)),
        ("Coevo-Trained-Under", draft.trained_under or ""),
        ("Coevo-Weights", draft.weights),
    ]
    return Content(trees.write_files(staging, files), draft.sources, draft.subject, rows)


def pair(store: Store, staging: Staging, draft: PairDraft, name: Name) -> Content:
    """The harness's own tree object, the checkpoint's own .dvc file, and what was measured."""
    harness_tree = str(store.commit(draft.harness).tree_id)
    dvc = trees.root_entries(store, str(store.commit(draft.checkpoint).tree_id))[DVC]
    files = {
        OUTCOME: trees.to_json(draft.outcome, f"outcome of {draft.name}"),
        ROLLOUTS: draft.rollouts_dvc.encode(),
    }
    tree = trees.write_files(
        staging, files, extra={HARNESS_FOLDER: (TREE_MODE, harness_tree), DVC: dvc}
    )
    rows: Rows = [
        *_head("pair", name.round, name.slot),
        *_outcome_rows(draft.outcome),
        ("Coevo-Split", draft.split),
        ("Coevo-Eval-Key", draft.eval_key),
    ]
    return Content(tree, (draft.harness, draft.checkpoint), draft.subject, rows)


def round_(
    store: Store,
    staging: Staging,
    draft: RoundDraft,
    previous: str | None,
    children: Iterable[str],
) -> Content:
    """The incumbent pair's tree, ready to use, and the round's files beside it."""
    where = f"round {draft.round}"
    extra = trees.root_entries(store, str(store.commit(draft.incumbent).tree_id))
    if draft.files:
        trees.check_paths(draft.files, where)
    for path in draft.files:
        if (top := path.split("/")[0]) in extra:
            raise ArchiveError(f"{where}: {path} would hide {top} of the incumbent; rename it")
    if previous:
        staging.assume(trees.known_oids(store, str(store.commit(previous).tree_id)))
    rows: Rows = [
        *_head("round", draft.round, ""),
        ("Coevo-Incumbent", draft.incumbent),
        ("Coevo-Promoted", "yes" if draft.promoted else "no"),
        ("Coevo-Gain", "" if draft.gain is None else trailers.number(draft.gain)),
        *((trailers.key(f"cost {k}"), trailers.number(v)) for k, v in sorted(draft.costs.items())),
    ]
    tree = trees.write_files(staging, draft.files, extra=extra)
    parents = [previous] if previous else []
    return Content(tree, (*parents, *children), draft.subject, rows)


def test(staging: Staging, draft: TestDraft, number: int) -> Content:
    """One use of the test split; nothing of the evolution reaches it."""
    files = {OUTCOME: trees.to_json(draft.outcome, f"outcome of test {number}")}
    if draft.rollouts_dvc:
        files[ROLLOUTS] = draft.rollouts_dvc.encode()
    rows: Rows = [
        ("Coevo-Kind", "test"),
        ("Coevo-Number", number),
        *_outcome_rows(draft.outcome),
        ("Coevo-Split", "test"),
        ("Coevo-Eval-Key", draft.eval_key),
    ]
    return Content(trees.write_files(staging, files), (draft.pair,), draft.subject, rows)


def evaluation(staging: Staging, draft: EvaluationDraft, number: int) -> Content:
    """A version measured outside the rounds; nothing of the evolution reaches it."""
    where = f"evaluation {number}"
    files = {
        OUTCOME: trees.to_json(draft.outcome, f"outcome of {where}"),
        REPORT: trees.to_json(draft.report, f"report of {where}"),
        ROLLOUTS: draft.rollouts_dvc.encode(),
    }
    rows: Rows = [
        ("Coevo-Kind", "evaluation"),
        ("Coevo-Number", number),
        ("Coevo-Agent", draft.agent),
        *_outcome_rows(draft.outcome),
        ("Coevo-Split", draft.outcome["split"]),
        ("Coevo-Eval-Key", draft.eval_key),
    ]
    return Content(trees.write_files(staging, files), (draft.pair,), draft.subject, rows)


def audit(staging: Staging, draft: AuditDraft, number: int, previous: str | None) -> Content:
    """Flags and verdicts as they stand; those before are the second parent."""
    files = {AUDIT: trees.to_json(draft.record, f"audit {number}")}
    if draft.outcome is not None:
        files[OUTCOME] = trees.to_json(draft.outcome, f"outcome of audit {number}")
    rows: Rows = [
        ("Coevo-Kind", "audit"),
        ("Coevo-Number", number),
        ("Coevo-Audit-Of", draft.of),
        *((trailers.key(name), count) for name, count in draft.counts.items()),
        *(_outcome_rows(draft.outcome) if draft.outcome is not None else []),
    ]
    parents = (draft.of, previous) if previous else (draft.of,)
    return Content(trees.write_files(staging, files), parents, draft.subject, rows)


def _head(kind: str, round_: int, slot: str) -> Rows:
    return [("Coevo-Kind", kind), ("Coevo-Round", round_), ("Coevo-Slot", slot)]


def _outcome_rows(outcome: Mapping[str, Any]) -> Rows:
    """Coevo-Score, one trailer for each metric, Coevo-TIMR (left out while undefined)."""
    metrics = {k: v for k, v in dict(outcome.get("metrics", {})).items() if k != "score"}
    rows: Rows = []
    if (score := outcome.get("score")) is not None:
        rows.append(("Coevo-Score", trailers.number(score)))
    rows += [
        (trailers.key(name), trailers.number(value))
        for name, value in sorted(metrics.items())
        if isinstance(value, int | float)
    ]
    if (timr := outcome.get("timr")) is not None:
        rows.append(("Coevo-TIMR", trailers.number(timr)))
    return rows
