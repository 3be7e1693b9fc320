"""How fast the archive takes offspring, and whether it stays so.

    python benchmarks/archive.py [--offspring 10000] [--editors 8] [--baseline 200]

Records offspring through the whole path (names, paths, code identity and duplicates, tree,
trailers, parents, state, branch), the eight editors of a round at a time, in a fresh one; with
--rounds each round is ended by its round commit too. The baseline, in the same run and on the
same disk, archives the same offspring the way a script does: git hash-object, mktree,
commit-tree and update-ref.
Exits with 1 when a promise is broken.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine.archive import Archive, CheckpointDraft, HarnessDraft, PairDraft, RoundDraft

RUN = "bench"
PER_SECOND, SLOWDOWN, LISTING_S, MEMORY_MB = 500.0, 1.3, 1.0, 400.0
BODY = "".join(f"def step_{i}(messages):\n    return messages[-{i + 1}:]\n\n" for i in range(14))


def workspace(number: int) -> dict[str, bytes]:
    """Eight files of about 700 bytes; offspring differ in four of them."""
    files = {f"mechanisms/m{i}.py": f"# mechanism {i}\n{BODY}".encode() for i in range(4)}
    return files | {
        "harness.py": f"# offspring {number}\n{BODY}".encode(),
        f"mechanisms/m{number % 4}.py": f"# mechanism of {number}\n{BODY}".encode(),
        "evolve_notes.md": f"Notes of offspring {number}.\n".encode() * 12,
        "evolution_report.md": f"Report of offspring {number}.\n".encode() * 12,
    }


def seeded(root: Path) -> tuple[Archive, str, str]:
    """An archive with round 0: (archive, seed harness, seed pair)."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    archive = Archive.open(root, RUN)
    harness = archive.record_harness(HarnessDraft(0, "seed", workspace(0), "Seed"))
    checkpoint = archive.record_checkpoint(
        CheckpointDraft("r000-seed", 0, "seed", "0" * 64, "outs: []\n", {}, "# Seed\n", "Seed")
    )
    outcome = {"score": 0.25, "timr": 0.1, "metrics": {"f1": 0.5}}
    pair = archive.record_pair(
        PairDraft(
            "r000-seed", 0, harness, checkpoint, outcome, "outs: []\n", "validation", "key", "Seed"
        )
    )
    archive.record_round(RoundDraft(0, pair, False, "Round 0", pairs=(pair,)))
    return archive, harness, pair


def record(root: Path, total: int, editors: int, rounds: bool) -> Iterator[float]:
    """Archive ``total`` offspring; the clock after each thousand, and at the start."""
    archive, base, pair = seeded(root)
    with archive.lock():  # as every stage does
        yield from _record(archive, base, pair, total, editors, rounds)
    yield time.perf_counter()


def _record(
    archive: Archive, base: str, pair: str, total: int, editors: int, rounds: bool
) -> Iterator[float]:
    yield time.perf_counter()
    done = 0
    while done < total:
        round_ = done // editors + 1
        drafts = [
            HarnessDraft(
                round_,
                f"k{slot + 1}",
                workspace(done + slot + 1),
                f"Offspring {done + slot}",
                base=base,
                editor="bench",
                lines_added=2,
                line_budget=500,
            )
            for slot in range(min(editors, total - done))
        ]
        base = archive.record_harnesses(drafts)[0]
        if rounds:
            archive.record_round(RoundDraft(round_, pair, False, f"Round {round_}"))
        before, done = done, done + len(drafts)
        if before // 1000 != done // 1000 and done < total:
            yield time.perf_counter()


def scripted(root: Path, count: int) -> float:
    """Seconds an offspring by git subprocesses (flat tree, no state, no duplicates, no rounds)."""
    git = ["git", "-C", str(root), "-c", "user.name=b", "-c", "user.email=b@localhost"]

    def run(*words: str, data: bytes = b"") -> str:
        return (
            subprocess.run([*git, *words], input=data, capture_output=True, check=True)
            .stdout.decode()
            .strip()
        )

    subprocess.run(["git", "init", "-q", str(root)], check=True)
    scratch = root / "scratch"
    scratch.mkdir()
    start = time.perf_counter()
    for number in range(count):
        files = workspace(number)
        for index, content in enumerate(files.values()):
            (scratch / str(index)).write_bytes(content)
        paths = "\n".join(str(scratch / str(index)) for index in range(len(files)))
        oids = run("hash-object", "-w", "--stdin-paths", data=paths.encode()).split()
        names = (path.replace("/", "-") for path in files)
        rows = "".join(f"100644 blob {o}\t{n}\n" for o, n in zip(oids, names, strict=True))
        tree = run("mktree", data=rows.encode())
        commit = run("commit-tree", tree, "-m", f"Offspring {number}")
        run("update-ref", f"refs/heads/harness/o{number}", commit)
    return (time.perf_counter() - start) / count


def measure(root: Path, last: int) -> None:
    """A pair for each of the last offspring, as a round leaves them."""
    archive = Archive.open(root, RUN)
    checkpoint = archive.checkpoints()[0].oid
    outcome = {"score": 0.5, "scalar": 0.5, "timr": 0.1, "metrics": {"f1": 0.5}}
    with archive.lock():
        for entry in archive.harnesses(limit=last):
            name = f"{entry.label}-a"
            archive.record_pair(
                PairDraft(
                    name, entry.round, entry.oid, checkpoint, outcome, "outs: []\n",
                    "validation", name, f"Measure {name}",
                )
            )  # fmt: skip


def listing(root: Path) -> float:
    """Seconds of `coevo log --json -n 50`, start-up included."""
    (root / "params.yaml").write_text(f"run: {RUN}\n")
    (root / "dvc.yaml").write_text("stages: {}\n")
    coevo = Path(sys.executable).with_name("coevo")
    start = time.perf_counter()
    done = subprocess.run(
        [coevo, "log", "--json", "-n", "50"],
        cwd=root,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    seconds = time.perf_counter() - start
    rows = json.loads(done.stdout)
    assert len(rows) == 50 and all(row["score"] == 0.5 for row in rows)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--offspring", type=int, default=10_000)
    parser.add_argument("--editors", type=int, default=8)
    parser.add_argument("--baseline", type=int, default=200)
    parser.add_argument("--rounds", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        slow = scripted(root / "baseline", options.baseline)
        marks = list(record(root / "archive", options.offspring, options.editors, options.rounds))
        laps = [after - before for before, after in itertools.pairwise(marks)]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        measure(root / "archive", 200)
        shown = listing(root / "archive")
        size = sum(p.stat().st_size for p in (root / "archive/.git").rglob("*") if p.is_file())
    rate = options.offspring / (marks[-1] - marks[0])
    print("seconds per thousand: " + " ".join(f"{lap:.2f}" for lap in laps))
    print(
        f"offspring per second: {rate:.0f}, {rate * slow:.1f} x git subprocesses ({1 / slow:.0f})"
    )
    print(f"last thousand / first thousand: {laps[-1] / laps[0]:.2f}")
    print(f"coevo log --json -n 50 on {options.offspring}: {shown:.2f} s, start-up included")
    print(f"peak memory: {memory:.0f} MB; repository: {size / 2**20:.0f} MB")
    kept = (
        rate >= PER_SECOND,
        laps[-1] <= SLOWDOWN * laps[0],
        shown < LISTING_S,
        memory < MEMORY_MB,
    )
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
