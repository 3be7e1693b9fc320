"""Run repositories that several test files start from, each by a copy of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from runs import RunRepository

ROUNDS = 2


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home of the tests' own: no user's git configuration, and an identity for plain git."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[user]\n\tname = Tester\n\temail = tester@localhost\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Started in the background, a shell ignores interrupts, and every process below inherits it:
    then nothing that the tests interrupt would stop."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """Before round 0. Its secret is made, so that copies of it evolve alike."""
    made = RunRepository(tmp_path_factory.mktemp("fresh") / "base", rounds=ROUNDS)
    secret = made.folder / ".coevo" / "secret"
    secret.parent.mkdir(exist_ok=True)
    secret.write_bytes(bytes(range(32)))
    return made


@pytest.fixture(scope="session")
def opened(fresh: RunRepository, tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """After round 0, round 1 open; not to be changed."""
    made = fresh.copied(tmp_path_factory.mktemp("opened") / "base")
    made.ok("coevo", "stage", "open")
    return made


@pytest.fixture(scope="session")
def one_round(fresh: RunRepository, tmp_path_factory: pytest.TempPathFactory) -> RunRepository:
    """After rounds 0 and 1; not to be changed."""
    made = fresh.copied(tmp_path_factory.mktemp("one") / "base")
    made.ok("dvc", "repro")
    return made
