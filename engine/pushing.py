"""Send a run on and fetch it: its data by DVC first, then its branches by git, so that whoever
sees a commit can also have what it names. Only what the run's commits name is moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.archive import refs
from engine.archive.entries import Checkpoint, Pair
from engine.context import Context
from engine.errors import ArchiveError

if TYPE_CHECKING:
    from git import Repo

_INCOMING = "refs/coevo-incoming"


@dataclass(frozen=True)
class Moved:
    """How many DVC objects and which refs went."""

    objects: int
    refs: tuple[str, ...]


def push(context: Context, git_remote: str | None) -> Moved:
    """Push exactly what the run's commits name. Raises DataError (DVC) or ArchiveError (git)."""
    objects = context.dvc.push(set(named_data(context)), context.observer)
    return Moved(objects, push_refs(context, git_remote) if git_remote else ())


def push_refs(context: Context, git_remote: str) -> tuple[str, ...]:
    """The run's branches, and the notes where the Hub has its pairs, merged with the remote's. The
    run's lock must be held. Raises ArchiveError."""
    branches, notes = _branches(context), refs.publications(context.params.run)
    _merge_notes(context, git_remote)
    sent = [branches, *([notes] if context.archive.publications() else [])]
    with _git(context, f"git push {git_remote}") as repo:
        repo.git.push("--no-verify", git_remote, *(f"{ref}:{ref}" for ref in sent))
    return tuple(sent)


def fetch_refs(context: Context, git_remote: str) -> tuple[str, ...]:
    """The reverse of ``push_refs``. Raises ArchiveError where the two went apart."""
    branches = _branches(context)
    with _git(context, f"git fetch {git_remote}") as repo:
        repo.git.fetch("--no-tags", git_remote, f"{branches}:{branches}")
    context.archive.recover()
    _merge_notes(context, git_remote)
    return (branches,)


def fetch_data(context: Context, pairs: Sequence[Pair] | None) -> int:
    """What a replay of ``pairs`` needs, from the default DVC remote into the cache: frozen splits
    and weights; None: everything that the run names. How many objects came. Raises DataError."""
    if pairs is None:
        return context.dvc.fetch(set(named_data(context)), context.observer)
    texts = {context.frozen.splits[name].dvc for name in sorted(context.readable)}
    texts |= {context.archive.checkpoint(pair.checkpoint).dvc for pair in pairs}
    return context.dvc.fetch(texts, context.observer)


def named_data(context: Context) -> Iterator[str]:
    """The .dvc texts of a run: splits, weights, training data, rollouts, editors' transcripts."""
    yield from (split.dvc for split in context.frozen.splits.values())
    yield from _of_checkpoints(context.archive.checkpoints())
    for pair in context.archive.pairs():
        yield context.archive.read(pair.oid, "rollouts.dvc").decode()
    for harness in context.archive.harnesses(include_rejected=True):
        if harness.session:
            yield harness.session


def _of_checkpoints(checkpoints: Iterable[Checkpoint]) -> Iterator[str]:
    for checkpoint in checkpoints:
        yield checkpoint.dvc
        if checkpoint.method == "sft":
            yield str(checkpoint.provenance["dataset"])


def _branches(context: Context) -> str:
    return f"refs/heads/{context.params.run}/*"


def _merge_notes(context: Context, git_remote: str) -> None:
    """Take in the remote's notes, if it has any, so that neither side's are lost."""
    notes, incoming = refs.publications(context.params.run), f"{_INCOMING}/{context.params.run}"
    with _git(context, f"git fetch {git_remote}") as repo:
        if not repo.git.ls_remote(git_remote, notes):
            return
        repo.git.fetch("--no-tags", git_remote, f"+{notes}:{incoming}")
        context.archive.merge_publications(incoming)
        repo.git.update_ref("-d", incoming)


@contextmanager
def _git(context: Context, command: str) -> Iterator[Repo]:
    """Raises ArchiveError with what git said."""
    from git import GitCommandError, Repo

    with Repo(context.root) as repo:
        try:
            yield repo
        except GitCommandError as error:
            cause = " ".join(str(error.stderr).split())
            raise ArchiveError(f"{command}: {cause}") from None
