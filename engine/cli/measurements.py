"""Facts of what is measured outside the rounds, and of audits, for `coevo show`."""

from __future__ import annotations

from typing import Any

from engine.archive.entries import Audit, Evaluation, Pair, TestResult
from engine.audit.record import from_json
from engine.context import Context


def outside_facts(context: Context, kind: str, oid: str) -> dict[str, Any]:
    """A test, an evaluation or an audit."""
    if kind == "audit":
        return _audit(context, oid)
    entry = context.archive.get(oid)
    assert isinstance(entry, TestResult | Evaluation)
    stands = context.archive.standing(entry)
    facts = {
        "kind": kind,
        "commit": oid,
        "ref": entry.ref,
        "subject": entry.subject,
        "pair": entry.pair,
        "split": stands["split"],
        "score": stands["score"],
        "tasks": stands["tasks"],
        "executions": stands["executions"],
        "metrics": stands["metrics"],
        "ends": stands["ends"],
    }
    return {**facts, **audit_facts(context, oid)}


def audit_facts(context: Context, oid: str) -> dict[str, Any]:
    """What an audit changed of a pair, test or evaluation; nothing where there was none."""
    audit = context.archive.audit(oid)
    if audit is None:
        return {}
    facts: dict[str, Any] = {"audit": {"commit": audit.oid, **from_json(audit.record).counts}}
    if audit.outcome is not None:
        entry = context.archive.get(oid)
        assert isinstance(entry, Pair | TestResult | Evaluation)
        facts["recorded_score"] = entry.outcome["score"]
    return facts


def _audit(context: Context, oid: str) -> dict[str, Any]:
    audit = context.archive.get(oid)
    assert isinstance(audit, Audit)
    record = from_json(audit.record)
    return {
        "kind": "audit",
        "commit": oid,
        "ref": audit.ref,
        "subject": audit.subject,
        "of": audit.of,
        "previous": audit.previous,
        "scanned": record.scanned,
        "counts": record.counts,
        "flags": {flag.id: record.status(flag.id) for flag in record.flags},
        "score": audit.outcome["score"] if audit.outcome is not None else None,
    }
