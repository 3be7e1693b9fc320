"""What a pair looks like on the Hub: the checkpoint's files at the top, so that transformers and
vLLM load the revision; the harness below ``harness/``; ``coevo.json`` says what it all is.

The manifest names every file with its sha256, so that a pulled folder is either all of the pair or
refused. It names the archive's commits too: whoever has the archive finds the pair in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.archive.entries import Pair
from engine.checkpoints import digest_of
from engine.context import Context
from engine.errors import HubError
from engine.hub import card
from engine.hub.client import Content
from engine.replaying import as_of

MANIFEST, CARD, WORLD, HARNESS = "coevo.json", "README.md", "world.json", "harness/"
OWN_CARD = "checkpoint_card.md"
"""The checkpoint's own README.md: the pair's card takes its place on the Hub."""

MEASURED = ("domain", "seed", "executions", "sampling", "limits")
SCHEMA = 1


@dataclass(frozen=True)
class Manifest:
    """``coevo.json``. ``files`` maps every file but the card and itself to its sha256;
    ``measured`` are the parameters that its score depends on."""

    run: str
    pair: str
    label: str
    harness: str
    checkpoint: str
    weights: str
    round_commit: str
    measured: Mapping[str, Any]
    files: Mapping[str, str]

    def weights_found(self) -> str:
        """The checkpoint's digest by what the manifest says of its files."""
        own = {
            name: hexa
            for name, hexa in self.files.items()
            if not name.startswith(HARNESS) and name not in (WORLD, OWN_CARD)
        }
        return digest_of(own)


def tag(run: str, pair: Pair) -> str:
    """``evo-r003-k2-a-0123456789ab``: run, label and commit, so that two histories never clash."""
    return f"{run}-{pair.label}-{pair.oid[:12]}"


def title(pair: Pair) -> str:
    """The Hub commit's first line, by which a revision without its tag is found again."""
    return f"{pair.label} {pair.oid}"


def build(context: Context, repo: str, pair: Pair, round_commit: str) -> dict[str, Content]:
    """Everything of one revision: path -> a file here or its bytes. Weights come from DVC where
    they aren't here. Raises CheckpointError for weights that are missing or changed."""
    agent = context.agent(pair.harness, pair.checkpoint)
    params = as_of(context, pair.round).params.model_dump(mode="json")
    sample = context.tasks("train")[0]
    world = asdict(context.domain.practice(sample, sample.instruction))
    files: dict[str, Content] = {
        name: path
        for path in sorted(agent.folder.rglob("*"))
        if path.is_file() and (name := path.relative_to(agent.folder).as_posix()) != CARD
        if not name.startswith(".")
    }
    files |= {f"{HARNESS}{name}": data for name, data in agent.files.items()}
    files |= {WORLD: _json(world), OWN_CARD: agent.folder / CARD}
    manifest = Manifest(
        context.params.run,
        pair.oid,
        pair.label,
        pair.harness,
        pair.checkpoint,
        agent.weights,
        round_commit,
        {name: params[name] for name in MEASURED},
        {name: _sha256(content) for name, content in files.items()},
    )
    files[MANIFEST] = _json({"schema": SCHEMA, **asdict(manifest)})
    files[CARD] = card.text(context, repo, tag(context.params.run, pair), pair).encode()
    return files


def read(data: bytes | None, where: str) -> Manifest:
    """The manifest in ``coevo.json``. Raises HubError where it is none."""
    try:
        known = json.loads(data or b"null")
        if known.pop("schema") != SCHEMA:
            raise ValueError("an unknown schema; upgrade CoEvo")
        made = Manifest(**known)
        if not all(_plain(name) and isinstance(x, str) for name, x in made.files.items()):
            raise ValueError("a file outside the folder")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HubError(
            f"{where}: no pair that CoEvo published ({MANIFEST}: {error}); `coevo push "
            "--hub` makes one"
        ) from None
    return made


def check(folder: Path, manifest: Manifest, where: str) -> None:
    """Raises HubError naming the file that a folder lacks, has too many, or has otherwise."""
    found = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != ".cache"
    }
    for name, wanted in manifest.files.items():
        if name not in found or _sha256(found[name]) != wanted:
            raise HubError(
                f"{where}: {name} is missing or not what {MANIFEST} says; delete {folder} and run "
                "the same command again"
            )
    extra = sorted(set(found) - set(manifest.files) - {MANIFEST, CARD, ".gitattributes"})
    if extra or manifest.weights_found() != manifest.weights:
        raise HubError(
            f"{where}: {', '.join(extra) or 'the weights'}: not the pair's; don't use it"
        )


def _plain(name: str) -> bool:
    parts = name.split("/")
    return all(part not in ("", ".", "..") and part.isprintable() for part in parts)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _sha256(content: Content) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
