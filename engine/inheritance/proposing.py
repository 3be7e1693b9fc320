"""A language model's proposals, checked before anything is merged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.inheritance import CheckpointFact, History, Proposal, Terms
from engine.llm.dialogue import SentBack, tool

_TOLERANCE = 1e-3
"""Weights may be rounded; what they lack of 1 is made up in proportion."""

_MAX_SCALE = 2.0

PROPOSE = tool(
    "propose",
    "Pair the offspring with a checkpoint, or a TIES merge of several, and measure that on a part "
    "of V. alpha maps checkpoints, by label or hash, to weights: each at least 0, together 1; one "
    "with weight 1 is selected as it is. density, lambda and normalize are of merges only.",
    {
        "alpha": {"type": "object", "additionalProperties": {"type": "number"}},
        "why": {"type": "string", "minLength": 1, "maxLength": 400},
        "density": {"type": "number"},
        "lambda": {"type": "number"},
        "normalize": {"type": "boolean"},
    },
    optional=["density", "lambda", "normalize"],
)


def proposal(
    arguments: Mapping[str, Any], history: History, terms: Terms, earlier: Sequence[Proposal]
) -> Proposal:
    """What the arguments propose. Raises SentBack with all that is wrong with it."""
    wrong = list(_problems(arguments, history))
    if wrong:
        raise SentBack("; ".join(wrong))
    total = sum(arguments["alpha"].values())
    exact = math.isclose(total, 1.0, abs_tol=1e-9)
    weights = {
        _known(name, history).oid: weight if exact else weight / total
        for name, weight in arguments["alpha"].items()
        if weight > 0
    }
    made = Proposal(
        weights,
        " ".join(arguments["why"].split()),
        arguments.get("density", terms.density),
        arguments.get("normalize", terms.normalize),
        arguments.get("lambda", 1.0),
    )
    if any(same(made, other) for other in earlier):
        raise SentBack("that was proposed before, and its outcome stands above")
    if made.single is None and sum(each.single is None for each in earlier) >= terms.merges:
        raise SentBack(f"no merge is left ({terms.merges} allowed); select a checkpoint, or stop")
    return made


def _problems(arguments: Mapping[str, Any], history: History) -> Iterator[str]:
    alpha = arguments["alpha"]
    seen: dict[str, str] = {}
    for name, weight in alpha.items():
        try:
            oid = _known(name, history).oid
        except SentBack as error:
            yield str(error)
            continue
        if oid in seen:
            yield f"{seen[oid]} and {name} are one checkpoint"
        seen[oid] = name
        if not math.isfinite(weight) or weight < 0:
            yield f"alpha of {name} is {weight:g}; a weight is at least 0"
    total = sum(alpha.values())
    if not abs(total - 1) <= _TOLERANCE:
        yield f"the weights sum to {total:g}; they must sum to 1"
    density, scale = arguments.get("density", 1.0), arguments.get("lambda", 1.0)
    if not 0 < density <= 1:
        yield f"density {density:g} is not in (0, 1]"
    if not 0 < scale <= _MAX_SCALE:
        yield f"lambda {scale:g} is not in (0, {_MAX_SCALE:g}]"


def checkpoint(name: str, history: History) -> CheckpointFact | None:
    """The one that a label, a hash or at least seven characters of one stands for."""
    wanted = name.strip().removeprefix("checkpoint/")
    exact = [c for c in history.checkpoints if wanted and wanted in (c.label, c.oid)]
    alike = [c for c in history.checkpoints if len(wanted) > 6 and c.oid.startswith(wanted)]
    return next(iter(exact or (alike if len(alike) == 1 else [])), None)


def _known(name: str, history: History) -> CheckpointFact:
    found = checkpoint(name, history)
    if found is None:
        raise SentBack(f"{name[:80]!r} is no archived checkpoint")
    return found


def same(one: Proposal, other: Proposal) -> bool:
    """Whether two proposals make the same weights."""
    if one.single or other.single:
        return one.single == other.single
    near = one.alpha.keys() == other.alpha.keys() and all(
        math.isclose(weight, other.alpha[oid], abs_tol=1e-6) for oid, weight in one.alpha.items()
    )
    settings = (one.density, one.normalize, one.scale)
    return near and settings == (other.density, other.normalize, other.scale)
