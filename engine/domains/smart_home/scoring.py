"""HomeBench's official counting, exactly.

A prediction loses its spaces and newlines, the contents of every ``{...}`` (non-greedy) are
joined by commas, and what lies between commas are its operations; without braces it has none.
The reference loses its ``'''`` too and is split alike. Success is equality of the two multisets,
F1 is micro over operations by multiset intersection, in which ``error_input`` is an operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

ERROR = "error_input"
MAX_ANSWER = 64 * 2**10
"""Characters of a longest answer that is read; a longer one has no operations."""


def operations(text: str, gold: bool = False) -> list[str]:
    """The operations of a prediction, or of a reference answer (which has no braces)."""
    bare = text.replace("'''", "") if gold else text
    bare = bare.replace(" ", "").replace("\n", "")
    if not gold:
        bare = ",".join(_braced(bare))
    return [operation for operation in bare.split(",") if operation]


def _braced(text: str) -> Iterator[str]:
    """What ``\\{(.*?)\\}`` finds, in one pass: over many ``{`` the expression is quadratic."""
    start = text.find("{")
    while start >= 0 and (end := text.find("}", start)) >= 0:
        yield text[start + 1 : end]
        start = text.find("{", end)


@dataclass(frozen=True)
class Counts:
    """Additive figures over answers; ``op_*`` leave ``error_input`` out."""

    n: int = 0
    success: int = 0
    tp: int = 0
    pred: int = 0
    gold: int = 0
    op_tp: int = 0
    op_pred: int = 0
    op_gold: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name)
                for each in fields(Counts)
            }
        )

    def as_dict(self) -> dict[str, float]:
        return {each.name: float(getattr(self, each.name)) for each in fields(Counts)}


def count(prediction: str, gold: str) -> Counts:
    """The figures of one answer against its reference."""
    predicted = Counter(operations(prediction))
    expected = Counter(operations(gold, gold=True))
    common = predicted & expected
    return Counts(
        n=1,
        success=int(predicted == expected),
        tp=common.total(),
        pred=predicted.total(),
        gold=expected.total(),
        op_tp=common.total() - common[ERROR],
        op_pred=predicted.total() - predicted[ERROR],
        op_gold=expected.total() - expected[ERROR],
    )


def f1(tp: float, predicted: float, expected: float) -> float:
    """Micro F1, a fraction of 1; 0 where nothing was predicted or nothing expected."""
    return 2 * tp / (predicted + expected) if tp else 0.0


def figures(counts: Mapping[str, float]) -> dict[str, float]:
    """``success``, ``f1`` and ``op_f1`` of summed counts, fractions of 1."""
    n = counts["n"]
    return {
        "success": counts["success"] / n if n else 0.0,
        "f1": f1(counts["tp"], counts["pred"], counts["gold"]),
        "op_f1": f1(counts["op_tp"], counts["op_pred"], counts["op_gold"]),
    }


def failure(prediction: str | None, gold: str) -> str:
    """A short name for what is wrong with an answer, '' when it is right."""
    if prediction is None:
        return "no_answer"
    predicted = Counter(operations(prediction))
    expected = Counter(operations(gold, gold=True))
    if predicted == expected:
        return ""
    if not predicted:
        return "no_commands"
    missing, extra = expected - predicted, predicted - expected
    if predicted.total() != expected.total():
        return "too_few" if predicted.total() < expected.total() else "too_many"
    if set(extra) == {ERROR}:
        return "rejected_feasible"
    if set(missing) == {ERROR}:
        return "accepted_infeasible"
    targets = Counter(_target(each) for each in extra.elements())
    if targets == Counter(_target(each) for each in missing.elements()):
        return "wrong_value"
    return "wrong_command"


def _target(operation: str) -> str:
    return operation.partition("(")[0]
