"""Work on files with the shell: move, merge, total, list, configure, tidy up; several at once."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.domains.terminal.families.words import NAMES, THINGS, sentence
from engine.domains.terminal.problem import Family, Problem

GRADER = """
import csv, hashlib, json
from pathlib import Path

APP = Path("/app")


def moved(facts):
    there = {p.name: p.read_text() for p in (APP / facts["to"]).glob("*") if p.is_file()}
    left = {p.name: p.read_text() for p in (APP / facts["from"]).glob("*") if p.is_file()}
    return there == facts["moved"] and left == facts["kept"]


def text(facts):
    path = APP / facts["path"]
    return path.is_file() and path.read_text().split("\\n") == (facts["text"] + "\\n").split("\\n")


def table(facts):
    path = APP / facts["path"]
    if not path.is_file():
        return False
    with path.open(newline="") as stream:
        return list(csv.reader(stream)) == facts["rows"]


def tree(facts):
    root = APP / facts["root"]
    found = {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
             for p in root.rglob("*") if p.is_file()}
    return found == facts["files"]


CHECKS = {"moved": moved, "text": text, "table": table, "tree": tree}
parts = json.loads(Path("/grader/facts.json").read_text())["parts"]
right = 0
for part in parts:
    try:
        good = CHECKS[part["check"]](part)
    except (OSError, UnicodeDecodeError):
        good = False
    right += good
    print(part["about"] + ":", "right" if good else "wrong")
print(json.dumps({"score": right / len(parts)}))
"""


@dataclass(frozen=True)
class Part:
    """One piece of the work: what is asked, with what, how it is checked and how it is done."""

    asked: str
    files: Mapping[str, bytes]
    facts: Mapping[str, Any]
    solution: str


def _sorting(rng: random.Random, size: int) -> Part:
    state = rng.choice(("done", "closed", "paid", "sent"))
    others = ["open", "waiting", f"not {state}", f"{state}?"]
    files: dict[str, bytes] = {}
    moved: dict[str, str] = {}
    kept: dict[str, str] = {}
    for number in range(6 * size):
        name = f"{rng.choice(THINGS)}-{number:03d}.txt"
        word = state if number == 0 or rng.random() < 0.4 else rng.choice(others)
        text = f"status: {word}\nowner: {rng.choice(NAMES)}\n\n{sentence(rng)}\n"
        if word != state and rng.random() < 0.5:
            text += f"status: {state}\n"  # only the first line counts
        files[f"inbox/{name}"] = text.encode()
        (moved if word == state else kept)[name] = text
    return Part(
        f"Move every file in inbox/ whose first line is exactly 'status: {state}' into a new "
        f"folder {state}/, under its own name; leave the others where they are.",
        files,
        {"check": "moved", "from": "inbox", "to": state, "moved": moved, "kept": kept},
        f"mkdir -p {state}\nfor f in inbox/*; do\n"
        f'  [ "$(head -n 1 "$f")" = "status: {state}" ] && mv "$f" {state}/\ndone',
    )


def _merging(rng: random.Random, size: int) -> Part:
    newest: dict[int, list[str]] = {}
    files = {}
    days = rng.sample(range(1, 29), min(1 + size, 6))
    for part, day in enumerate(sorted(days)):
        lines = ["id,name,amount,date"]
        for number in rng.sample(range(1, 12 * size), 4 * size):
            row = [str(number), rng.choice(NAMES), str(rng.randrange(1, 900)), f"2024-03-{day:02d}"]
            lines.append(",".join(row))
            newest[number] = row
        order = rng.choice(("a", "b", "c"))
        files[f"tables/{order}{part}.csv"] = ("\n".join(lines) + "\n").encode()
    rows = [["id", "name", "amount", "date"], *(newest[number] for number in sorted(newest))]
    script = (
        "import csv, glob\nrows = {}\n"
        "for path in glob.glob('tables/*.csv'):\n"
        "    for row in csv.DictReader(open(path)):\n"
        "        old = rows.get(int(row['id']))\n"
        "        if old is None or old['date'] < row['date']: rows[int(row['id'])] = row\n"
        "with open('merged.csv', 'w', newline='') as out:\n"
        "    writer = csv.writer(out)\n    writer.writerow(['id', 'name', 'amount', 'date'])\n"
        "    for number in sorted(rows): writer.writerow(rows[number].values())\n"
    )
    return Part(
        "Merge the tables in tables/ into merged.csv with the same header: one row for each id, "
        "the one with the latest date, in rising order of id as a number.",
        files,
        {"check": "table", "path": "merged.csv", "rows": rows},
        f"python3 - <<'PY'\n{script}PY",
    )


def _totals(rng: random.Random, size: int) -> Part:
    totals: dict[str, int] = {}
    lines = ["# category amount"]
    kinds = rng.sample(THINGS, 2 + size)
    for _ in range(12 * size):
        kind, amount = rng.choice(kinds), rng.randrange(-50, 500)
        shape = rng.random()
        if shape < 0.12:
            lines.append(f"# {kind} {amount}")
        elif shape < 0.2:
            lines.append(f"{kind} {rng.choice(('n/a', '?', ''))}".rstrip())
        elif shape < 0.25:
            lines.append("")
        else:
            lines.append(f"{kind}{' ' * rng.randrange(1, 5)}{amount}")
            totals[kind] = totals.get(kind, 0) + amount
    text = "\n".join(f"{kind} {totals[kind]}" for kind in sorted(totals))
    return Part(
        "Add up ledger.txt by category and write totals.txt: a line 'category total' for each, in "
        "alphabetical order. Lines that begin with '#', empty lines and lines without a whole "
        "number as amount don't count.",
        {"ledger.txt": ("\n".join(lines) + "\n").encode()},
        {"check": "text", "path": "totals.txt", "text": text},
        "awk '!/^#/ && NF == 2 && $2 ~ /^-?[0-9]+$/ {t[$1] += $2} "
        "END {for (k in t) print k, t[k]}' ledger.txt | LC_ALL=C sort > totals.txt",
    )


def _manifest(rng: random.Random, size: int) -> Part:
    files = {}
    for number in range(3 * size):
        folder = rng.choice(("", "lib/", "doc/", "lib/deep/"))
        files[f"{folder}{rng.choice(THINGS)}{number}.txt"] = sentence(rng).encode()
    lines = [f"{hashlib.sha256(files[name]).hexdigest()}  {name}" for name in sorted(files)]
    return Part(
        "Write MANIFEST: a line 'sha256  path' (two spaces) for each file below release/, with the "
        "path relative to release/, in byte order of the paths.",
        {f"release/{name}": data for name, data in files.items()},
        {"check": "text", "path": "MANIFEST", "text": "\n".join(lines)},
        "(cd release && find . -type f | sed 's|^[.]/||' | LC_ALL=C sort | xargs sha256sum) "
        "> MANIFEST",
    )


def _configuring(rng: random.Random, size: int) -> Part:
    port, old = rng.randrange(2000, 9000), rng.randrange(9001, 9999)
    sections = rng.sample(THINGS, 1 + size)
    target = rng.choice(sections)
    before, after = [], []
    for section in sections:
        mine = section == target
        block = [f"[{section}]", f"# {sentence(rng)}", f"host = {rng.choice(NAMES)}.example"]
        rest = [f"retries={rng.randrange(9)}", f"; port = {old}", ""]
        before += [*block, f"port = {old}", *rest]
        after += [*block, f"port = {port if mine else old}", *rest]
    name = "settings/service.ini"
    wanted = "\n".join(after).encode()
    return Part(
        f"In {name}, set port to {port} in section [{target}]; change no other byte of the file.",
        {name: "\n".join(before).encode()},
        {
            "check": "tree",
            "root": "settings",
            "files": {"service.ini": hashlib.sha256(wanted).hexdigest()},
        },
        f"sed -i '/^\\[{target}\\]/,/^\\[/ s/^port = .*/port = {port}/' {name}",
    )


def _tidying(rng: random.Random, size: int) -> Part:
    limit = rng.randrange(200, 500)
    files, kept = {}, {}
    for number in range(5 * size):
        name = f"{rng.choice(('', 'a/', 'a b/', 'c/d/'))}{rng.choice(THINGS)}{number}.tmp"
        data = b"x" * (limit + 1 if number == 0 else rng.choice((0, 1, limit, limit + 1)))
        files[f"cache/{name}"] = data
        if 0 < len(data) <= limit:
            kept[name] = hashlib.sha256(data).hexdigest()
    return Part(
        f"Below cache/, delete every empty file and every file of more than {limit} bytes, and "
        "nothing else.",
        files,
        {"check": "tree", "root": "cache", "files": kept},
        f"find cache -type f \\( -empty -o -size +{limit}c \\) -delete",
    )


PARTS: tuple[Callable[[random.Random, int], Part], ...] = (
    _sorting,
    _merging,
    _totals,
    _manifest,
    _configuring,
    _tidying,
)


def make(rng: random.Random, difficulty: int) -> Problem:
    """As many pieces of work as the difficulty says, each of a size that grows with it."""
    parts = [part(rng, difficulty) for part in rng.sample(PARTS, min(difficulty, len(PARTS)))]
    asked = "\n".join(f"{number}. {part.asked}" for number, part in enumerate(parts, 1))
    facts = [{**part.facts, "about": f"piece {n}"} for n, part in enumerate(parts, 1)]
    return Problem(
        instruction=f"You are in /app. Do all of this with the files that are there:\n{asked}",
        files={name: data for part in parts for name, data in part.files.items()},
        grader=GRADER,
        facts=json.loads(json.dumps({"parts": facts})),
        solution="\n".join(["set -e", *(f"(\n{part.solution}\n) || true" for part in parts)]),
    )


FAMILY = Family("files", make)
