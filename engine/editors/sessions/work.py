"""What a session left in its folder: the harness, where it is from, and what is wrong with it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.archive import trees
from engine.archive.drafts import Adoption
from engine.archive.trailers import clean
from engine.brief import Brief
from engine.editors.sessions import declaration, kinship, report
from engine.editors.sessions.declaration import Declaration
from engine.editors.sessions.room import Room
from engine.editors.sessions.session import Ended
from engine.errors import ArchiveError
from engine.view import HarnessSummary, find
from kernel import workspace

_MAX_BYTES = 4 * 2**20
_OID = re.compile(rb"\b[0-9a-f]{40}\b")
_LONGEST_SUBJECT, _LAST_WORDS = 72, 300
_DEEPEST_REF = 16
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Known:
    """The archive as the sessions see it: every harness and its files, oldest first."""

    entries: Sequence[HarnessSummary]
    files: Mapping[str, Files]


@dataclass(frozen=True)
class Left:
    """See ``engine.editors.Edit``."""

    files: Files
    base: str
    adopts: tuple[Adoption, ...]
    subject: str
    refused: tuple[str, ...]
    final: bool
    remarks: tuple[str, ...]


def judge(room: Room, ended: Ended, start: HarnessSummary, known: Known, brief: Brief) -> Left:
    """Judged by the folder and the process tree, never by what the agent says of itself or by its
    exit status. What is refused goes back to the session once; what was ended by a limit doesn't.
    """
    remarks = tuple(map(clean, _remarks(room, ended, known)))  # file names may be no text
    before = known.files[start.oid]
    if ended.excess:
        reason = f"session: {ended.excess}"
        return _nothing(before, start, brief, reason, remarks, final=True)
    try:
        files, dropped = _candidate(room.candidate, before)
    except (ValueError, ArchiveError, OSError) as error:
        return _nothing(before, start, brief, clean(f"path: {error}"), remarks)
    if dropped:
        remarks += (clean(f"hidden files were left out: {', '.join(dropped)}"),)
    read = declaration.read(room.work)
    if read.declared is None and files == before:
        said = clean(ended.said)[-_LAST_WORDS:]
        remarks += (f"its last words: {said}" if said else "it said nothing",)
        return _nothing(before, start, brief, _idle(ended), remarks)
    if read.declared is None:
        return _nothing(files, start, brief, read.problem, remarks)
    return _declared(files, read.declared, start, known, brief, remarks)


def _nothing(
    files: Files,
    start: HarnessSummary,
    brief: Brief,
    reason: str,
    remarks: tuple[str, ...],
    final: bool = False,
) -> Left:
    """Where no declaration says where the files are from."""
    return Left(dict(files), start.oid, (), _subject("", brief), (reason,), final, remarks)


def _idle(ended: Ended) -> str:
    return f"session: it ended with status {ended.status} and changed nothing"


def _declared(
    files: Files,
    declared: Declaration,
    start: HarnessSummary,
    known: Known,
    brief: Brief,
    remarks: tuple[str, ...],
) -> Left:
    wrong = list(declaration.problems(declared, known.entries))
    named = find(declared.base, known.entries)
    base = named if named is not None and named.usable else start
    if base is named:
        wrong += _false_base(files, base, known)
    wrong += report.problems(files, known.files[base.oid])
    adopts = _adopts(declared, base, known)
    found = tuple(_undeclared(files, base, adopts, known))
    if found:
        names = ", ".join(a.oid[:12] for a in found)
        remarks += (f"adopted word for word without saying so: {names}",)
    subject = _subject(declared.subject, brief)
    return Left(files, base.oid, (*adopts, *found), subject, tuple(wrong), False, remarks)


def _false_base(files: Files, base: HarnessSummary, known: Known) -> Iterator[str]:
    others = {e.oid: known.files[e.oid] for e in known.entries if e.usable and e is not base}
    found = kinship.nearer(files, known.files[base.oid], others)
    if found is not None:
        near = next(entry for entry in known.entries if entry.oid == found)
        yield (
            f"base: the candidate is far from {base.label} and much nearer to {near.label}; "
            "declare the base that it was developed from"
        )


def _adopts(declared: Declaration, base: HarnessSummary, known: Known) -> tuple[Adoption, ...]:
    """The declared adoptions, each harness once, without the base."""
    made: dict[str, list[str]] = {}
    for adopted in declared.adopts:
        entry = find(adopted.harness, known.entries)
        if entry is not None and entry.oid != base.oid:
            made.setdefault(entry.oid, []).append(" ".join(adopted.what.split())[:120])
    return tuple(Adoption(oid, "; ".join(what)) for oid, what in made.items())


def _undeclared(
    files: Files, base: HarnessSummary, adopts: Sequence[Adoption], known: Known
) -> Iterator[Adoption]:
    others = {oid: each for oid, each in known.files.items() if oid != base.oid}
    declared = [adoption.oid for adoption in adopts]
    for oid, name in kinship.adopted(files, known.files[base.oid], declared, others):
        yield Adoption(oid, f"code in {name} (found)")


def _subject(said: str, brief: Brief) -> str:
    line = " ".join((said or brief.hypothesis).split())
    return line if len(line) <= _LONGEST_SUBJECT else line[: _LONGEST_SUBJECT - 3] + "..."


def _candidate(folder: Path, before: Files) -> tuple[Files, list[str]]:
    """The workspace, and the hidden entries that an agent left at its top. Raises ValueError or
    ArchiveError for what git can't hold or what is too much."""
    if folder.is_symlink():  # it could lead to whatever the engine may read
        raise ValueError(f"the folder {folder.name} is a symlink")
    files = workspace.read(folder)
    hidden = {name for name in files if name.startswith(".") and name not in before}
    kept = {name: content for name, content in files.items() if name not in hidden}
    if sum(map(len, kept.values())) > _MAX_BYTES:
        raise ValueError(f"the candidate is larger than {_MAX_BYTES} bytes")
    trees.check_paths(kept, "the candidate")
    return kept, sorted({name.partition("/")[0] for name in hidden})


def _remarks(room: Room, ended: Ended, known: Known) -> Iterator[str]:
    if ended.left:
        yield f"it left {len(ended.left)} processes, which were ended: {'; '.join(ended.left[:4])}"
    allowed = {room.candidate.name, declaration.FILE}
    outside = sorted(path.name for path in room.work.iterdir() if path.name not in allowed)
    if outside:
        yield f"it wrote outside the candidate: {', '.join(outside[:8])}"
    commits = _commits(room.candidate / ".git") - {entry.oid for entry in known.entries}
    if commits:
        yield f"it made {len(commits)} commits of its own, which are not used"
    if ended.early:
        yield ended.early
    if ended.status and not ended.excess:
        yield f"it ended with status {ended.status}"


def _commits(folder: Path) -> set[str]:
    """All that refs and logs of a repository name. It is the session's own: only read as bytes,
    links not followed, and never shown to git."""
    found: set[str] = set()
    wanted = ("HEAD", "packed-refs")
    if folder.is_symlink() or folder.parent.is_symlink():
        return found
    for parent, folders, names in os.walk(folder):
        if len(Path(parent).parts) - len(folder.parts) > _DEEPEST_REF:
            folders.clear()
        if Path(parent) == folder:
            folders[:] = [name for name in folders if name in ("refs", "logs")]
            names = [name for name in names if name in wanted]
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 2**22:
                found |= {each.decode() for each in _OID.findall(path.read_bytes())}
    return found - {"0" * 40}
