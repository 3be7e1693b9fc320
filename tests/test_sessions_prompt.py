"""What sessions are told: the same bytes for the same input, and within the context budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.archive.drafts import Adoption
from engine.brief import Brief, Evidence
from engine.domains.registry import domain
from engine.editors.sessions import index
from engine.editors.sessions.prompt import prompt, repair_prompt, tokens
from engine.editors.sessions.view import start
from engine.errors import ConfigError
from engine.view import HarnessSummary

GOLDEN = Path(__file__).parent / "golden"
BRIEF = Brief(
    "k2", "address", "malformed calls: 9 of 40 fail so.", "malformed", ("retry", "schema"), None
)
EVIDENCE = Evidence("# The incumbent\nscore 0.250, TIMR 0.403\n- malformed: 9, e.g. 0a1b2c", ())
SEED = HarnessSummary(
    oid="1" * 40, round=0, slot="seed", base=None, subject="Archive the seed harness",
    score=0.25, timr=0.403, scalar=0.25, checkpoint="seed",
)  # fmt: skip
BETTER = HarnessSummary(
    oid="2" * 40, round=1, slot="k1", base=SEED.oid, subject="Retry malformed calls",
    mechanisms=("retry",), score=0.5, timr=0.1, scalar=0.5, checkpoint="sft", incumbent=True,
)  # fmt: skip
WORSE = HarnessSummary(
    oid="3" * 40, round=1, slot="k2", base=SEED.oid, subject="Too many </index> examples",
    adopts=(Adoption(BETTER.oid, "retry"),), rejected=True, check="rejected: budget: 700 added",
)  # fmt: skip
ENTRIES = (SEED, BETTER, WORSE)


def written(entries: tuple[HarnessSummary, ...] = ENTRIES, context: int = 128_000) -> str:
    return prompt(domain("smart_home").direction, BRIEF, EVIDENCE, entries, BETTER, 441, context)


def test_the_prompt_is_the_golden_one() -> None:
    """Written by: the file says whatever the prompt says now, and was read by a person."""
    assert written() == (GOLDEN / "session_prompt.md").read_text("utf-8")
    assert written() == written()


def test_the_repair_prompt_is_the_golden_one() -> None:
    text = repair_prompt("FIRST PROMPT\n", ["syntax: harness.py:3", "leak: an id"], BETTER, 8000)
    assert text == (GOLDEN / "session_repair.md").read_text("utf-8")


def test_what_others_wrote_can_not_close_its_fence() -> None:
    assert written().count("</index>") == 1
    assert "Too many < /index> examples" in written()


def large(count: int) -> tuple[HarnessSummary, ...]:
    """An archive with long lines; its best harness is neither the first nor the newest."""
    return tuple(
        replace(
            SEED,
            oid=f"{number:040x}",
            round=number // 8,
            slot=f"k{number % 8}",
            subject=f"Change number {number} " + "with very many words " * 6,
            mechanisms=("retry", "choose_examples", "arrange_examples"),
            scalar=0.9 if number == 77 else 0.3,
            incumbent=number == 200,
        )
        for number in range(count)
    )


@pytest.mark.parametrize("context", [16_000, 32_000, 128_000])
def test_prompts_fit_the_context_with_500_harnesses(context: int) -> None:
    entries = large(500)
    long = replace(EVIDENCE, text="\n".join(f"line {n} of the evidence" for n in range(20_000)))
    text = prompt(domain("smart_home").direction, BRIEF, long, entries, entries[200], 441, context)
    assert tokens(text) <= context // 4 + 1
    assert tokens(text) >= context // 4 * 0.9, "and use what there is"
    assert "cut here: the whole evidence stands in /coevo/archive/EVIDENCE.md" in text
    shown = text.partition("<index>")[2]
    assert "r025-k0" in shown and "r009-k5" in shown and "r062-k3" in shown, (
        "the incumbent, the best and the newest are there"
    )
    left = 500 - shown.count("\n- r0")
    assert f"... and {left} more: INDEX.md has them all" in shown
    again = repair_prompt(text, ["x" * 5000] * 50, entries[200], context)
    assert tokens(again) <= context // 4 + 1


def test_the_whole_index_has_every_harness() -> None:
    lines = index.whole(large(500)).splitlines()
    assert sum(line.startswith("- r") for line in lines) == 500
    assert lines[4].startswith("- r062-k3, "), "the newest first"


def test_a_context_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"llm.context: 4096 tokens leave no room"):
        written(context=4096)


@given(st.integers(0, 120), st.integers(400, 20_000))
def test_an_excerpt_keeps_its_budget(count: int, budget: int) -> None:
    entries = large(count)
    text = index.excerpt(entries, budget)
    assert len(text.encode()) <= budget
    shown = text.count("\n- r")
    assert ("more: INDEX.md" in text) == (shown < count)


def test_a_candidate_starts_from_hint_incumbent_or_newest() -> None:
    assert start(ENTRIES, SEED.oid[:12]) is SEED
    assert start(ENTRIES, "r000-seed") is SEED
    assert start(ENTRIES, None) is BETTER
    assert start(ENTRIES, WORSE.oid) is BETTER, "a rejected one is no base"
    assert start((SEED, WORSE), None) is SEED
