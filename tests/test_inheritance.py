"""The embedded inheritance policy and the ablations'."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.inheritance import CheckpointFact, HarnessFact, History, PairFact, merger, policy

SEED = CheckpointFact("s", 0, "seed", ())
FIRST = CheckpointFact("c1", 1, "sft", ("s",))
SECOND = CheckpointFact("c2", 2, "sft", ("c1",))


def history(*extra: PairFact, checkpoints=(SEED, FIRST, SECOND)) -> History:
    incumbent = PairFact("h0", "s", 0, 0.2, 0.1)
    return History(tuple(checkpoints), (incumbent, *extra), incumbent)


def propose(kind: str, past: History, base: str = "h0", merges: int = 2):
    return policy(kind).propose(past, base, merges, 0.5, True)


def test_one_checkpoint_means_selection_only() -> None:
    proposals = propose("embedded", history(checkpoints=(SEED,)))
    assert [p.single for p in proposals] == ["s"]


def test_the_best_checkpoint_under_the_base_is_proposed_with_the_reason() -> None:
    past = history(PairFact("h1", "c1", 1, 0.5, 0.3), PairFact("h1", "c2", 2, 0.4, 0.0))
    by_checkpoint = {p.single: p.why for p in propose("embedded", past, base="h1") if p.single}
    assert by_checkpoint["c1"] == "the best outcome under the offspring's base"
    assert by_checkpoint["c2"] == "the lowest TIMR under the offspring's base"
    assert by_checkpoint["s"] == "the incumbent's checkpoint"


def test_from_the_first_adapted_checkpoint_on_a_merge_is_proposed() -> None:
    [mixture] = [
        p for p in propose("embedded", history(checkpoints=(SEED, FIRST)), merges=1) if not p.single
    ]
    assert dict(mixture.alpha) == {"c1": 0.7, "s": 0.3}
    assert not mixture.normalize, "renormalising would undo a mixture with the seed"


def test_two_adapted_checkpoints_are_merged_best_first() -> None:
    past = history(PairFact("h1", "c1", 1, 0.5, 0.3), PairFact("h1", "c2", 2, 0.6, 0.0))
    mixtures = [p for p in propose("embedded", past) if not p.single]
    assert [dict(p.alpha) for p in mixtures] == [{"c2": 0.5, "c1": 0.5}, {"c2": 0.7, "c1": 0.3}]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1), st.floats(0, 1)), max_size=12),
    st.integers(0, 4),
)
def test_mixtures_are_convex_and_within_the_budget(facts, merges: int) -> None:
    pairs = [PairFact(f"h{i}", f"c{c}", i, score, t) for i, (c, score, t) in enumerate(facts)]
    checkpoints = (SEED, *(CheckpointFact(f"c{c}", 1, "sft", ("s",)) for c in "abc"))
    proposals = propose("embedded", history(*pairs, checkpoints=checkpoints), merges=merges)
    for proposal in proposals:
        assert abs(sum(proposal.alpha.values()) - 1) < 1e-9
        assert all(weight >= 0 for weight in proposal.alpha.values())
    assert sum(p.single is None for p in proposals) <= merges


def test_the_ablations_never_reach_back() -> None:
    past = history(PairFact("h1", "c1", 1, 0.9, 0.0))
    assert [p.single for p in propose("seed-only", past)] == ["s"]
    assert [p.single for p in propose("latest-only", past)] == [past.incumbent.checkpoint]


def test_an_unknown_policy_or_merger_lists_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"did you mean 'embedded'\? known: embedded, latest-only"
    ):
        policy("embeded")
    with pytest.raises(ConfigError, match="known: mergekit"):
        merger("soup")


def test_the_parent_s_branch_gives_the_policy_that_did_best_there() -> None:
    harnesses = (
        HarnessFact("h1", "r001-k1", "", "h0"),
        HarnessFact("h2", "r002-k1", "", "h1"),
        HarnessFact("h3", "r003-k1", "", "h2"),
    )
    pairs = (PairFact("h1", "c1", 1, 0.5, 0.3), PairFact("h1", "s", 1, 0.4, 0.0))
    past = replace(history(*pairs, PairFact("h9", "c2", 2, 0.9, 0.0)), harnesses=harnesses)
    for base, wanted in (("h1", "c1"), ("h3", "c1"), ("h0", "s"), ("unknown", "s")):
        [only] = propose("parent-branch", past, base=base)
        assert only.single == wanted, base
