"""Evidence and briefs that a language model proposes, checked; near-duplicates are found."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.brief import Brief
from engine.llm.dialogue import SentBack, tool
from engine.view import HarnessSummary, find

ALIKE = 0.6
"""Briefs whose hypotheses share this part of their telling words (Jaccard) are near-duplicates."""

KINDS = ("address", "vary", "recombine", "combine")
_TOLD = 8
_LEAST_WORDS = 6
_STEM = 5

WRITE = tool(
    "write",
    "The evidence for the editors, and exactly one brief for each editor.",
    {
        "evidence": {"type": "string", "minLength": 1},
        "briefs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "kind": {"enum": list(KINDS)},
                    "hypothesis": {"type": "string", "maxLength": 1500},
                    "failure": {"type": "string"},
                    "mechanisms": {"type": "array", "items": {"type": "string"}, "maxItems": 12},
                    "base": {"type": ["string", "null"]},
                },
                "required": ["kind", "hypothesis"],
                "additionalProperties": False,
            },
        },
    },
)


@dataclass(frozen=True)
class Terms:
    """What briefs are held against: how many, the names of failure classes and mechanisms, the
    archive, and the characters that the evidence may have."""

    k: int
    classes: Collection[str]
    mechanisms: Collection[str]
    entries: Sequence[HarnessSummary]
    evidence: int


@dataclass(frozen=True)
class Written:
    """What was taken."""

    evidence: str
    briefs: tuple[Brief, ...]


def written(arguments: Mapping[str, Any], terms: Terms) -> Written:
    """Evidence and briefs in slots k1..kK. Raises SentBack with all that is wrong with them."""
    text = arguments["evidence"].strip()
    wrong = []
    if not 0 < len(text) <= terms.evidence:
        wrong.append(f"the evidence has {len(text)} characters; at most {terms.evidence} fit")
    proposed = arguments["briefs"]
    if len(proposed) != terms.k:
        wrong.append(f"{len(proposed)} briefs; give exactly {terms.k}")
    for number, each in enumerate(proposed, start=1):
        wrong += [f"brief {number}: {problem}" for problem in _problems(each, terms)]
    if not wrong:
        briefs = tuple(_brief(f"k{n}", each, terms) for n, each in enumerate(proposed, start=1))
        wrong = list(_alike(briefs))
    if wrong:
        more = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
        raise SentBack("; ".join(wrong[:_TOLD]) + more)
    return Written(text, briefs)


def _problems(proposed: Mapping[str, Any], terms: Terms) -> Iterator[str]:
    if len(proposed["hypothesis"].split()) < _LEAST_WORDS:
        yield "say in its hypothesis what to change and what effect that should have"
    failure = _class(proposed, terms)
    if failure is None:
        yield f"failure {proposed['failure'][:80]!r} is none of: {', '.join(terms.classes)}"
    elif proposed["kind"] == "address" and terms.classes and not failure:
        yield f"kind address names a failure, one of: {', '.join(terms.classes)}"
    for name in proposed.get("mechanisms", ()):
        if name not in terms.mechanisms:
            near = difflib.get_close_matches(name, terms.mechanisms, 1)
            hint = f" ({near[0]}?)" if near else ""
            yield f"mechanism {name[:60]!r} is not listed{hint}; describe a new one in words"
    base = proposed.get("base")
    if base and ((entry := find(base, terms.entries)) is None or not entry.usable):
        yield f"base {base[:60]!r} is no valid harness of the archive"


def _class(proposed: Mapping[str, Any], terms: Terms) -> str | None:
    """The class as it is called; '' where none is meant, None where there is no such one."""
    said = " ".join(proposed.get("failure", "").split()).casefold()
    known = {name.casefold(): name for name in terms.classes}
    return known.get(said) if said else ""


def _brief(slot: str, proposed: Mapping[str, Any], terms: Terms) -> Brief:
    base = find(proposed.get("base") or "", terms.entries)
    return Brief(
        slot=slot,
        kind=proposed["kind"],
        hypothesis=" ".join(proposed["hypothesis"].split()),
        failure=_class(proposed, terms) or "",
        mechanisms=tuple(dict.fromkeys(proposed.get("mechanisms", ()))),
        base=base.oid if base else None,
    )


def _alike(briefs: Sequence[Brief]) -> Iterator[str]:
    for one, other in itertools.combinations(briefs, 2):
        shared = likeness(one.hypothesis, other.hypothesis)
        if shared >= ALIKE:
            yield (
                f"{one.slot} and {other.slot} are near-duplicates: their hypotheses share "
                f"{shared:.0%} of their words; make one of them a different hypothesis"
            )
        elif one.mechanisms and set(one.mechanisms) == set(other.mechanisms):
            yield (
                f"{one.slot} and {other.slot} are near-duplicates: both rest on "
                f"{', '.join(one.mechanisms)}; make one of them a different hypothesis"
            )


def likeness(one: str, other: str) -> float:
    """The Jaccard index of two texts' words, without endings and the shortest words."""
    first, second = _stems(one), _stems(other)
    return len(first & second) / len(first | second) if first | second else 1.0


def _stems(text: str) -> set[str]:
    words = re.findall(r"\w+", text.casefold())
    return {word.rstrip("s")[:_STEM] for word in words if len(word) > 3 or not word.isascii()}
