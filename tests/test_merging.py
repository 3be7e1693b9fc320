"""Mixtures in the archive: each is merged once in a run."""

from __future__ import annotations

from pathlib import Path

from runs import RunRepository

from engine.context import open_context
from engine.inheritance import Proposal
from engine.merging import Merging
from engine.observer import Silent
from engine.params import load


def test_a_mixture_of_an_earlier_round_is_used_again(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run = one_round.copied(tmp_path / "base")
    context = open_context(run.folder, load(run.folder / "params.yaml"), Silent())
    seed, trained = context.archive.checkpoints()[:2]
    proposal = Proposal({trained.oid: 0.7, seed.oid: 0.3}, "a mixture", 0.5, False)
    made = Merging(context, 2).checkpoint(proposal)
    later = Merging(context, 3)
    assert made is not None and later.checkpoint(proposal) == made and not later.note
    other = later.checkpoint(Proposal({trained.oid: 0.6, seed.oid: 0.4}, "another", 0.5, False))
    assert other not in (None, made) and context.archive.checkpoint(str(other)).round == 3
