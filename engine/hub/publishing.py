"""Publish a run's promoted pairs: each one commit on the Hub's main branch, then its tag.

The tag comes last, so a revision that has one is whole. A push that broke off finds the commits it
had made by their titles, tags them, and goes on; what the Hub holds of a file isn't sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from engine.archive.entries import Pair
from engine.context import Context
from engine.hub import revision
from engine.hub.client import Hub


@dataclass(frozen=True)
class Published:
    """A pair on the Hub; ``new`` where this push put it there."""

    pair: str
    label: str
    tag: str
    revision: str
    new: bool


def promoted(context: Context) -> Iterator[tuple[Pair, str]]:
    """The pairs that held the title, oldest first, each with the round that gave it."""
    seen: set[str] = set()
    for round_ in context.archive.rounds():
        if round_.incumbent not in seen:
            seen.add(round_.incumbent)
            yield context.archive.pair(round_.incumbent), round_.oid


def publish(context: Context, hub: Hub) -> list[Published]:
    """Bring every promoted pair to the Hub and note its revision beside its commit. The run's lock
    must be held, ``hub.require_writing`` have passed. Raises HubError and CheckpointError."""
    tags = hub.tags()
    made = {title: oid for oid, title in reversed(hub.commits())}
    done = []
    for pair, round_commit in promoted(context):
        name = revision.tag(context.params.run, pair)
        oid = tags.get(name)
        if oid is None:
            oid = made.get(revision.title(pair)) or _send(context, hub, pair, round_commit)
            hub.tag(name, oid)
        done.append(Published(pair.oid, pair.label, name, oid, name not in tags))
        context.archive.publish(pair.oid, {"hub": hub.repo, "tag": name, "revision": oid})
    return done


def _send(context: Context, hub: Hub, pair: Pair, round_commit: str) -> str:
    """Commit one pair on top of what main is now."""
    context.observer.say(f"{pair.label}: sending to {hub.repo}")
    files = revision.build(context, hub.repo, pair, round_commit)
    before = hub.commits()
    return hub.send(files, revision.title(pair), before[0][0] if before else None)


def as_json(published: Published) -> Mapping[str, object]:
    return asdict(published)
