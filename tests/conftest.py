"""Run repositories that several test files start from, each by a copy of its own."""

from __future__ import annotations

import pytest
from runs import RunRepository

ROUNDS = 2


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """Before round 0. Its secret is made, so that copies of it evolve alike."""
    made = RunRepository(tmp_path_factory.mktemp("fresh") / "base", rounds=ROUNDS)
    secret = made.folder / ".coevo" / "secret"
    secret.parent.mkdir(exist_ok=True)
    secret.write_bytes(bytes(range(32)))
    return made


@pytest.fixture(scope="session")
def one_round(fresh: RunRepository, tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """After rounds 0 and 1; not to be changed."""
    made = fresh.copied(tmp_path_factory.mktemp("one") / "base")
    made.ok("dvc", "repro")
    return made
