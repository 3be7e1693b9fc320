"""Evidence e_t as text: figures, failure classes, what the archive says, excerpts of reports."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from engine.curator.credit import Credits
from engine.curator.retrieval import REPORT, History
from engine.diagnosis import Feedback

_SHOWN_IDS = 4


def write(feedback: Feedback, history: History, credits: Credits, budget: int) -> str:
    """Whole lines, the most telling first, at most ``budget`` characters."""
    return _fitting(itertools.chain(_figures(feedback), _past(history, credits)), budget)


def figures(feedback: Feedback, budget: int) -> str:
    """The diagnosis alone, in the same form."""
    return _fitting(_figures(feedback), budget)


def _fitting(lines: Iterable[str], budget: int) -> str:
    kept: list[str] = []
    used = 0
    for line in lines:
        if used + len(line) + 1 > budget:
            break
        kept.append(line)
        used += len(line) + 1
    return "\n".join(kept)


def _figures(feedback: Feedback) -> Iterator[str]:
    rate = "undefined" if feedback.timr is None else f"{feedback.timr:.3f}"
    yield f"# The incumbent on {feedback.n} validation rollouts"
    yield f"score {feedback.score:.3f}, TIMR {rate}, {feedback.turns:.1f} turns a rollout"
    yield f"ends: {_counts(feedback.ends)}; violations: {_counts(feedback.violations)}"
    yield "## Failure classes"
    for each in feedback.classes:
        ids = ", ".join(each.samples[:_SHOWN_IDS])
        yield f"- {each.name}: {each.count} ({each.kind}; {each.grounded} grounded), e.g. {ids}"
    yield f"controls that succeed: {', '.join(feedback.controls) or 'none'}"
    yield "## Strata"
    for row in feedback.strata:
        yield f"- {row.key} {row.value}: {row.score:.3f} of {row.n}; {_counts(row.failures)}"


def _past(history: History, credits: Credits) -> Iterator[str]:
    yield "## Mechanisms tried so far"
    for name, credit in credits.tried():
        lost = f", {credit.rejected} rejected" if credit.rejected else ""
        yield f"- {name}: {credit.tries} tries{lost}, expected gain {credit.expected:+.3f}"
    yield "## Archived harnesses"
    for entry in reversed(history.entries):
        score = "not measured" if entry.scalar is None else f"{entry.scalar:.3f}"
        state = f"rejected ({entry.check})" if entry.rejected else score
        yield f"- {entry.oid[:12]} {entry.subject}: {state}; {', '.join(entry.mechanisms) or '-'}"
    for (oid, path), text in history.files.items():
        if path == REPORT and text:
            yield f"## Report of {oid[:12]}"
            yield from (line for line in text.splitlines()[:20] if line.strip())


def _counts(counts: object) -> str:
    pairs = dict(counts) if isinstance(counts, dict) else {}
    return ", ".join(f"{name} {count}" for name, count in pairs.items()) or "none"
