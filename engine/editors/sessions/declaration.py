"""``coevo.json``: what a session says of its own work, and what is wrong with that.

A problem's text goes back to the session, so it says what to write.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.view import HarnessSummary, find

FILE = "coevo.json"
_MAX_BYTES = 256 * 2**10


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Adopted(_Part):
    """A design taken over: the harness it stands in, and what it is."""

    harness: str
    what: str = Field(min_length=1)


class Diagnosis(_Part):
    """HARNESS DIAGNOSIS in short (paper, Prompt A, step 3)."""

    baseline: str = Field(min_length=1)
    addressable: str = Field(min_length=1)
    files: tuple[str, ...] = Field(min_length=1)
    mechanisms: str = Field(min_length=1)
    expected: str = Field(min_length=1)
    risks: str = Field(min_length=1)


class Declaration(_Part):
    """The whole file. ``base`` and ``adopts`` name harnesses by label or hash."""

    base: str = Field(min_length=1)
    diagnosis: Diagnosis
    adopts: tuple[Adopted, ...] = ()
    subject: str = ""


EXAMPLE = """\
{
  "base": "r003-k2",
  "adopts": [{"harness": "r001-k4", "what": "retry of malformed calls"}],
  "subject": "one line on what the change is",
  "diagnosis": {
    "baseline": "the metrics to start from",
    "addressable": "the share of failures that a harness can mend",
    "files": ["harness.py"],
    "mechanisms": "what will change, and how it works",
    "expected": "the effect on each metric",
    "risks": "what may go wrong"
  }
}"""


@dataclass(frozen=True)
class Read:
    """A declaration, or why there is none."""

    declared: Declaration | None
    problem: str = ""


def read(folder: Path) -> Read:
    """The declaration in a session's folder. Links and special files aren't followed."""
    path = folder / FILE
    try:
        found = path.lstat()
    except OSError:
        return Read(None, f"declaration: {FILE} is missing; write it beside the candidate")
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
        return Read(None, f"declaration: {FILE} is no plain file below {_MAX_BYTES} bytes")
    try:
        return Read(Declaration.model_validate(json.loads(path.read_bytes())))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the whole"
        return Read(None, f"declaration: {FILE}: {key}: {first['msg']}")
    except (ValueError, RecursionError) as error:
        return Read(None, f"declaration: {FILE} is no JSON ({str(error)[:120]})")


def problems(declared: Declaration, entries: Sequence[HarnessSummary]) -> Iterator[str]:
    """Names in it that are no archived harness, or none that may serve so."""
    base = find(declared.base, entries)
    if base is None:
        yield f"base: {declared.base[:80]!r} is no harness of the archive; see INDEX.md"
    elif not base.usable:
        yield f"base: {base.label} was rejected and can't be a base"
    for adopted in declared.adopts:
        if find(adopted.harness, entries) is None:
            yield (
                f"adopts: {adopted.harness[:80]!r} is no harness of the archive; "
                "name each by the label or hash in INDEX.md"
            )
