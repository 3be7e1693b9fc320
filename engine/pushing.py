"""Push a run: its data to the DVC remote first, then its branches, so that whoever sees a commit
can also have what it names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.context import Context
from engine.errors import ArchiveError


@dataclass(frozen=True)
class Pushed:
    """How many DVC objects and which refs went."""

    objects: int
    refs: tuple[str, ...]


def push(context: Context, git_remote: str | None) -> Pushed:
    """Push exactly what the run's commits name. Raises DataError (DVC) or ArchiveError (git)."""
    objects = context.dvc.push(set(named_data(context)))
    refs = f"refs/heads/{context.params.run}/*"
    if git_remote is None:
        return Pushed(objects, ())
    from git import GitCommandError, Repo

    with Repo(context.root) as repo:
        try:
            repo.git.push("--no-verify", git_remote, f"{refs}:{refs}")
        except GitCommandError as error:
            cause = " ".join(str(error.stderr).split())
            raise ArchiveError(f"git push {git_remote}: {cause}") from None
    return Pushed(objects, (refs,))


def named_data(context: Context) -> Iterator[str]:
    """The .dvc texts of a run: splits, weights, training data, rollouts, editors' transcripts."""
    yield from (split.dvc for split in context.frozen.splits.values())
    for checkpoint in context.archive.checkpoints():
        yield checkpoint.dvc
        if checkpoint.method == "sft":
            yield str(checkpoint.provenance["dataset"])
    for pair in context.archive.pairs():
        yield context.archive.read(pair.oid, "rollouts.dvc").decode()
    for harness in context.archive.harnesses(include_rejected=True):
        if harness.session:
            yield harness.session
