"""Commit messages with git trailers: written so, and read as ``git interpret-trailers --parse``.

A key may come several times (``Coevo-Adopts``), so trailers are a list of pairs, never a dict.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

Trailers = list[tuple[str, str]]
PREFIX = "Coevo-"
_LINE = re.compile(r"([A-Za-z0-9-]+)[ \t]*:(.*)")


def clean(text: object) -> str:
    """One line: control characters and runs of white space become a space, ends are stripped."""
    kept = (" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in str(text))
    return " ".join("".join(kept).split())


def key(name: str) -> str:
    """``op_f1`` as a trailer's key: ``Coevo-Op-F1``. Git allows letters, digits and '-' only."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    return PREFIX + "-".join(word[0].upper() + word[1:] for word in words)


def number(value: float) -> str:
    """A figure for people: whole numbers in full, else six significant digits.

    The exact one stands in the commit's tree.
    """
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"


def write(subject: str, trailers: Iterable[tuple[str, object]]) -> str:
    """The message: subject, blank line, trailers. Values are cleaned; empty ones are left out.

    A leading run of dashes is dropped from the subject, since git takes ``---`` for the end of
    the message.
    """
    lines = [f"{name}: {value}" for name, raw in trailers if (value := clean(raw))]
    return (clean(subject).lstrip("- ") or "(no subject)") + "\n\n" + "\n".join(lines) + "\n"


def parse(message: str) -> Trailers:
    """The trailers of the last paragraph; [] when a line of it isn't one.

    The subject's own paragraph is never taken for trailers. Continuation lines are unfolded.
    """
    paragraphs = re.split(r"\n(?:[ \t]*\n)+", message.strip("\n"))
    if len(paragraphs) < 2:
        return []
    pairs: Trailers = []
    for line in paragraphs[-1].split("\n"):
        if line[:1] in (" ", "\t") and pairs:
            name, value = pairs[-1]
            pairs[-1] = (name, f"{value} {line.strip()}")
        elif found := _LINE.fullmatch(line):
            pairs.append((found[1], found[2].strip()))
        else:
            return []
    return pairs


def value(trailers: Trailers, name: str) -> str:
    """The last value of ``Coevo-<name>``, '' when there is none."""
    values = every(trailers, name)
    return values[-1] if values else ""


def every(trailers: Trailers, name: str) -> list[str]:
    """All values of ``Coevo-<name>`` in order. Keys are compared as git does: without case."""
    wanted = (PREFIX + name).lower()
    return [text for found, text in trailers if found.lower() == wanted]


def subject(message: str) -> str:
    return message.lstrip("\n").partition("\n")[0].strip()
