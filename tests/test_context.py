"""What stages are given: outcomes by pair, and splits to those who may have them."""

from __future__ import annotations

import pytest
from runs import RunRepository

from engine.context import Context, open_context
from engine.errors import DataError
from engine.observer import Silent
from engine.params import load
from engine.records import Outcome, adapter


@pytest.fixture
def context(one_round: RunRepository) -> Context:
    return open_context(one_round.folder, load(one_round.folder / "params.yaml"), Silent())


def test_an_outcome_is_had_by_hash_and_by_entry(context: Context) -> None:
    for pair in context.archive.pairs():
        assert context.outcome(pair) == context.outcome(pair.oid)
        assert context.outcome(pair).score == pair.score
    assert adapter(Outcome) is adapter(Outcome)


def test_the_seed_checkpoint_is_that_of_round_zero(context: Context) -> None:
    assert context.archive.checkpoint(context.seed_checkpoint()).label == "r000-seed"


def test_the_test_split_is_closed_to_rounds(context: Context) -> None:
    assert len(context.tasks("validation")) == 12
    for ask in (context.split, context.tasks):
        with pytest.raises(DataError, match="only `coevo test` reads it"):
            ask("test")
