"""The Curator: what it reads, what it writes, and that its hypotheses follow the outcomes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe_cases import SEED, rollout, with_recipes

from engine.brief import Curated
from engine.curator import curator
from engine.curator.credit import PRIOR, Credits
from engine.curator.remedies import remedies
from engine.curator.retrieval import retrieve
from engine.diagnosis import Feedback, diagnose
from engine.domains.smart_home import DOMAIN
from engine.editors import REPORT, mechanisms
from engine.editors.recipes.catalogue import RECIPES
from engine.errors import ConfigError
from engine.records import from_bytes, to_bytes
from engine.view import HarnessSummary, MemoryView, gain


def feedback(*causes: str) -> Feedback:
    failed = [rollout(f"t{n}", failure=name) for n, name in enumerate(causes)]
    return diagnose([*failed, rollout("right")], DOMAIN)


FIRST = feedback(*["accepted_infeasible"] * 4, *["wrong_command"] * 6, "too_few", "too_few")


def entry(oid: str, scalar: float | None, base: str | None = None, **more) -> HarnessSummary:
    scalars = {} if scalar is None else {"seed": scalar}
    return HarnessSummary(
        oid, more.pop("round", 0), "k0", base, f"Make {oid}", scalar=scalar, scalars=scalars, **more
    )


def archive(*entries: HarnessSummary) -> MemoryView:
    """A view in which each harness has the mechanisms that its summary names."""
    files = {}
    for each in entries:
        code = with_recipes(*each.mechanisms)
        files[each.oid] = {**code, REPORT: f"# {each.subject}\nIt did {each.oid}.\n".encode()}
    return MemoryView(entries, files)


GENERATION_0 = archive(entry("seed", 0.1, incumbent=True))
LATER = archive(
    entry("seed", 0.10),
    entry("checks", 0.30, "seed", round=1, mechanisms=("verify_commands",), incumbent=True),
    entry("splits", 0.22, "seed", round=1, mechanisms=("split_request",)),
    entry("states", 0.04, "seed", round=1, mechanisms=("room_state",)),
    entry(
        "broken", None, "seed", round=1, mechanisms=("ask_again",), rejected=True, check="smoke: x"
    ),
)


def curate(said: Feedback, view: MemoryView, k: int = 4, seed: int = 0, **budgets: int) -> Curated:
    return curator("embedded").curate(said, view, k, random.Random(seed), **budgets)


def test_first_round_addresses_the_classes_and_combines_their_remedies():
    briefs = curate(FIRST, GENERATION_0).briefs
    assert [brief.slot for brief in briefs] == ["k1", "k2", "k3", "k4"]
    assert [brief.kind for brief in briefs] == ["address", "address", "address", "combine"]
    assert [brief.failure for brief in briefs[:3]] == [
        "wrong command",
        "accepted infeasible",
        "too few",
    ]
    assert briefs[0].mechanisms == remedies("wrong_command")[:3]
    assert "6 of 13 fail so" in briefs[0].hypothesis
    union = {name for brief in briefs[:3] for name in brief.mechanisms}
    assert len(briefs[3].mechanisms) > 3
    assert {next(iter(brief.mechanisms)) for brief in briefs[:3]} <= set(briefs[3].mechanisms)
    assert set(briefs[3].mechanisms) <= union


def test_later_rounds_recombine_what_gained():
    briefs = curate(FIRST, LATER).briefs
    [recombined] = [brief for brief in briefs if brief.kind == "recombine"]
    assert recombined.mechanisms == ("split_request",)
    assert not any(
        "verify_commands" in brief.mechanisms for brief in briefs if brief.kind != "vary"
    )
    assert all(brief.base == "checks" for brief in briefs)


def test_outcomes_correct_the_prior():
    credits = Credits(LATER.index())
    assert credits.of("never_tried").expected == PRIOR
    assert credits.of("split_request").expected == pytest.approx((PRIOR + 0.12) / 2)
    assert credits.of("room_state").expected == pytest.approx((PRIOR - 0.06) / 2)
    assert (credits.of("ask_again").tries, credits.of("ask_again").rejected) == (1, 1)
    assert credits.of("ask_again").expected < PRIOR
    assert next(iter(credits.tried()))[0] == "verify_commands"


def test_a_mechanism_that_lost_is_not_the_first_remedy():
    said = feedback(*["wrong_command"] * 5)
    name = remedies("wrong_command")[0]
    assert curate(said, GENERATION_0).briefs[0].mechanisms[0] == name
    worse = archive(
        entry("seed", 0.3, incumbent=True), entry("bad", 0.1, "seed", mechanisms=(name,))
    )
    assert name not in curate(said, worse).briefs[0].mechanisms


def test_gains_compare_like_checkpoints_only():
    base = entry("base", 0.2)
    child = replace(entry("child", 0.5, "base"), scalars={"sft": 0.5})
    assert gain(child, {"base": base}) is None
    assert gain(replace(child, scalars={"sft": 0.5, "seed": 0.1}), {"base": base}) == pytest.approx(
        -0.1
    )
    assert gain(base, {"base": base}) is None


@settings(max_examples=40, deadline=None)
@given(
    k=st.integers(1, 16),
    seed=st.integers(0, 99),
    causes=st.lists(st.sampled_from(["wrong_value", "no_call", "odd", "turn_limit"]), max_size=8),
    later=st.booleans(),
)
def test_k_briefs_all_different(k, seed, causes, later):
    briefs = curate(feedback(*causes), LATER if later else GENERATION_0, k, seed).briefs
    assert [brief.slot for brief in briefs] == [f"k{number}" for number in range(1, k + 1)]
    assert len({(brief.kind, brief.mechanisms) for brief in briefs}) == k
    assert all(brief.mechanisms and brief.hypothesis for brief in briefs)
    assert {name for brief in briefs for name in brief.mechanisms} <= set(RECIPES)


def test_reading_is_stepwise_and_bounded():
    history = retrieve(LATER, 24)
    assert [each.action for each in history.inspections[:2]] == ["index", "read"]
    assert history.inspections[1].target == "checks:harness.py"
    read = [each.target for each in history.inspections]
    assert "broken:evolution_report.md" in read and len(read) == len(set(read)) == 7
    for budget in (1, 2, 3):
        short = retrieve(LATER, budget).inspections
        assert short == history.inspections[:budget]
    assert retrieve(LATER, 0).inspections == []


def test_a_missing_report_is_recorded_as_such():
    view = MemoryView([entry("seed", 0.1)], {"seed": SEED})
    assert retrieve(view, 9).inspections[-1].result == "(not there)"


def test_evidence_is_bounded_and_says_what_counts():
    text = curate(FIRST, LATER).evidence.text
    for part in (
        "wrong command: 6",
        "verify_commands: 1 tries",
        "rejected (smoke: x)",
        "It did splits",
    ):
        assert part in text
    for budget in (0, 80, 500, 1500):
        short = curate(FIRST, LATER, context_budget=budget).evidence.text
        assert len(short) <= budget and text.startswith(short)


def test_an_external_class_gets_no_brief():
    failed = [rollout(f"t{n}", end="model_error", flags=()) for n in range(5)]
    said = diagnose([*failed, rollout("v", failure="wrong_value")], DOMAIN)
    briefs = curate(said, GENERATION_0).briefs
    assert "model error" not in {brief.failure for brief in briefs}


def test_curated_is_a_record_and_repeatable():
    curated = curate(FIRST, LATER, 8, seed=3)
    assert from_bytes(to_bytes(curated), Curated, "evidence.json") == curated
    assert curate(FIRST, LATER, 8, seed=3) == curated
    assert mechanisms(LATER.files("checks")) == ("verify_commands",)


def test_remedies_are_recipes_of_the_catalogue():
    for name in ("malformed", "turn_limit", "wrong_command", "wrong_value", "unheard_of"):
        assert set(remedies(name)) <= set(RECIPES)


def test_the_table_of_curators():
    with pytest.raises(ConfigError, match="did you mean 'embedded'"):
        curator("embeded")
