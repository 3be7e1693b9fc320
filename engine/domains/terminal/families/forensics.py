"""The state of a broken store, put together from fragments of its binary log; kept out of
evolution."""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from engine.domains.terminal.families.words import NAMES, THINGS, sentence
from engine.domains.terminal.problem import Family, Problem

GRADER = """
import json
from pathlib import Path

facts = json.loads(Path("/grader/facts.json").read_text())
try:
    given = json.loads(Path("/app/state.json").read_text())
except (OSError, ValueError) as error:
    print("state.json can't be read:", error)
    given = {}
given = given if isinstance(given, dict) else {}
right = sum(type(given.get(k)) is int and given[k] == v for k, v in facts["state"].items())
extra = len(set(given) - set(facts["state"]))
print(right, "of", len(facts["state"]), "keys are right;", extra, "should not be there")
print(json.dumps({"score": right / (len(facts["state"]) + extra)}))
"""

SOLUTION = r"""
import glob, json, re, struct, zlib

text = open("FORMAT.md").read()
mask = re.search(r"XORed with 0x(\w\w)", text)
mask = int(mask[1], 16) if mask else 0
order = ">" if "big-endian" in text else "<"
squeezed = "compressed by zlib" in text
records = {}
for path in glob.glob("fragments/*.bin"):
    data = bytes(byte ^ mask for byte in open(path, "rb").read())
    at = data.find(b"LOG1")
    while at >= 0:
        head = data[at + 4:at + 12]
        if len(head) == 8:
            number, kind, _, size = struct.unpack(order + "IBBH", head)
            body, check = data[at + 12:at + 12 + size], data[at + 12 + size:at + 16 + size]
            if len(check) == 4 and zlib.crc32(head + body) == struct.unpack(order + "I", check)[0]:
                records[number] = (kind, zlib.decompress(body) if squeezed else body)
        at = data.find(b"LOG1", at + 1)
state, pending = {}, {}
for number in sorted(records):
    kind, body = records[number]
    unit = struct.unpack(order + "H", body[:2])[0]
    if kind in (1, 2, 3):
        value = struct.unpack(order + "q", body[2:10])[0]
        pending.setdefault(unit, []).append((kind, body[10:].decode(), value))
    elif kind == 4:
        for kind, key, value in pending.pop(unit, []):
            if kind == 1:
                state[key] = value
            elif kind == 2:
                state[key] = state.get(key, 0) + value
            else:
                state.pop(key, None)
    else:
        pending.pop(unit, None)
json.dump(state, open("state.json", "w"))
"""

FORMAT = """\
# The log

A fragment is a stretch of the log: records one after the other, in rising order of their numbers \
unless something was lost. It may begin and end in the middle of one. Fragments overlap, so a \
record may be found more than once; a record that is damaged in one may be whole in another.

| bytes | what |
|---|---|
| 4 | the letters LOG1 |
| 4 | number of the record, unsigned |
| 1 | kind: 1 set, 2 add, 3 delete, 4 commit, 5 abort |
| 1 | unused |
| 2 | size of the body, unsigned |
| size | body |
| 4 | CRC-32 (as in zlib) of everything between the letters and here |

The body is the number of a transaction (2 bytes, unsigned) and, for kinds 1 to 3, a value (8 \
bytes, signed; 0 for delete) and a key (the rest, UTF-8).{squeezed} Numbers are {order}.{masked}

What a transaction does takes effect when it commits, in the order of its records; an aborted one \
does nothing, nor does one that neither commits nor aborts. To add to a key that isn't there sets \
it. A damaged record counts as not written.
"""

INSTRUCTION = """\
A store broke down. /app/fragments holds what could be saved of its log, in no order; FORMAT.md \
describes the log. Write state.json: an object with each key of the store and its value (a whole \
number) after the last commit."""


@dataclass(frozen=True)
class Coding:
    """How records are written. ``mask`` is XORed to every byte of a fragment."""

    big: bool
    squeezed: bool
    mask: int

    def record(self, number: int, entry: Entry) -> bytes:
        order = ">" if self.big else "<"
        body = struct.pack(order + "H", entry.unit)
        if entry.kind <= 3:
            body += struct.pack(order + "q", entry.value) + entry.key.encode()
        body = zlib.compress(body) if self.squeezed else body
        head = struct.pack(order + "IBBH", number, entry.kind, 0, len(body))
        return b"LOG1" + head + body + struct.pack(order + "I", zlib.crc32(head + body))


class Entry(NamedTuple):
    kind: int
    unit: int
    key: str = ""
    value: int = 0


def _history(rng: random.Random, difficulty: int) -> list[Entry]:
    """Transactions that overlap; about one in four is aborted or never ends."""
    keys = [f"{name}.{thing}" for name in NAMES for thing in THINGS]
    keys = rng.sample(keys, 4 + 3 * difficulty)
    units = rng.sample(range(1000), 4 + 4 * difficulty)
    fates = ([4, 4, 4, 5, 4, 4, 0, 4] * len(units))[: len(units)]
    queues = []
    for unit, fate in zip(units, fates, strict=True):
        steps = [
            Entry(kind, unit, rng.choice(keys), 0 if kind == 3 else rng.randrange(-(10**6), 10**6))
            for kind in rng.choices((1, 2, 3), (5, 4, 1), k=rng.randrange(2, 5))
        ]
        queues.append([*steps, Entry(fate, unit)] if fate else steps)
    entries = []
    while queues:
        queue = rng.choice(queues[:3])
        entries.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    return entries


def _state(entries: list[Entry], aborts: bool = True) -> dict[str, int]:
    """The store after the last commit; without ``aborts`` as if every transaction took effect."""
    state: dict[str, int] = {}
    pending: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.kind <= 3:
            pending.setdefault(entry.unit, []).append(entry)
        elif entry.kind == 4 or not aborts:
            for kind, _, key, value in pending.pop(entry.unit, []):
                if kind == 3:
                    state.pop(key, None)
                else:
                    state[key] = value + (state.get(key, 0) if kind == 2 else 0)
    return state


def _damaged(rng: random.Random, record: bytes, size: int) -> bytes:
    """Some bit of the last byte before the CRC is wrong, so that it looks like a whole record."""
    at = len(record) - 5 - rng.randrange(min(size, 2))
    return record[:at] + bytes([record[at] ^ (1 << rng.randrange(4))]) + record[at + 1 :]


def _fragments(
    rng: random.Random, records: list[bytes], lost: set[int], difficulty: int
) -> list[bytes]:
    """Stretches that overlap and begin and end within records. Records in ``lost`` are damaged
    wherever they stand, others only where another fragment has them whole."""
    step = 5
    found = []
    for first in range(0, len(records), step):
        part = records[first : first + step + 3]
        for at in range(len(part)):
            twice = step <= at  # the next fragment has it whole
            if first + at in lost or (twice and rng.random() < 0.15 * difficulty):
                part[at] = _damaged(rng, part[at], difficulty)
        before = records[first - 1][-rng.randrange(1, 9) :] if first else b""
        after = records[first + step + 3][: rng.randrange(1, 12)] if (
            first + step + 3 < len(records)
        ) else b""  # fmt: skip
        found.append(before + b"".join(part) + after)
    rng.shuffle(found)
    return found


def make(rng: random.Random, difficulty: int) -> Problem:
    coding = Coding(
        big=difficulty >= 2 and rng.random() < 0.5,
        squeezed=difficulty >= 3,
        mask=rng.randrange(1, 256) if difficulty >= 4 else 0,
    )
    while True:
        entries = _history(rng, difficulty)
        changes = [n for n, entry in enumerate(entries) if entry.kind in (1, 2)]
        lost = set(rng.sample(changes, difficulty))
        kept = [entry for n, entry in enumerate(entries) if n not in lost]
        state = _state(kept)
        # what a careless reading gives must differ
        if len(state) >= 2 and state not in (_state(entries), _state(kept, aborts=False)):
            break
    records = [coding.record(n, entry) for n, entry in enumerate(entries, rng.randrange(9999))]
    files = {
        f"fragments/{rng.randrange(16**8):08x}.bin": bytes(byte ^ coding.mask for byte in data)
        for data in _fragments(rng, records, lost, difficulty)
    }
    described = FORMAT.format(
        squeezed=" The body is compressed by zlib; its size is that in the log."
        if coding.squeezed
        else "",
        order="big-endian" if coding.big else "little-endian",
        masked=f" Every byte of a fragment is XORed with 0x{coding.mask:02x}."
        if coding.mask
        else "",
    )
    notes = "\n".join(sentence(rng) for _ in range(4))
    return Problem(
        instruction=INSTRUCTION,
        files={**files, "FORMAT.md": described.encode(), "notes.txt": notes.encode()},
        grader=GRADER,
        facts={"state": state},
        solution=f"python3 - <<'PY'{SOLUTION}PY",
    )


FAMILY = Family("forensics", make, ood=True)
