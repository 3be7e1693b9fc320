"""Real repositories for the archive's tests: git in a temporary HOME, a small run in it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from engine.archive import (
    Adoption,
    Archive,
    CheckpointDraft,
    HarnessDraft,
    PairDraft,
    RoundDraft,
)

RUN = "evo"
FILES = {
    "harness.py": b"async def run(instruction, model, world):\n    pass\n",
    "mechanisms/retry.py": b"LIMIT = 2\n",
    "evolve_notes.md": b"seed\n",
}


def git(root: Path, *words: str, data: str = "", check: bool = True) -> str:
    """What git itself says; fsck's notices come on stderr and count as said."""
    done = subprocess.run(
        ["git", "-C", str(root), *words], input=data, capture_output=True, text=True
    )
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(words)}: {done.stderr}")
    return (done.stdout + done.stderr if words[0] == "fsck" else done.stdout).strip()


def repository(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    return root


def clean(root: Path) -> bool:
    """Whether ``git fsck`` finds nothing wrong or dangling."""
    said = git(root, "fsck", "--full", "--strict")
    return all(line.startswith("notice:") for line in said.splitlines())


def seed_harness(archive: Archive) -> str:
    return archive.record_harness(HarnessDraft(0, "seed", FILES, "Seed harness"))


def seed_checkpoint(archive: Archive) -> str:
    return archive.record_checkpoint(
        CheckpointDraft(
            "r000-seed",
            0,
            "seed",
            "5" * 64,
            "outs:\n- md5: 1\n",
            {"from": "hub"},
            "# Card\n",
            "Seed",
        )
    )


def measured(
    archive: Archive, name: str, harness: str, checkpoint: str, score: float, round_: int = 0
) -> str:
    outcome = {
        "score": score,
        "metrics": {"score": score, "op_f1": 0.5, "success_VS": 1 / 3},
        "timr": 0.125,
        "by_task": {"t-1": score},
    }
    return archive.record_pair(
        PairDraft(
            name,
            round_,
            harness,
            checkpoint,
            outcome,
            "outs:\n- md5: 2\n",
            "validation",
            f"key-{name}",
            f"Measure {name}",
        )
    )


class Run(NamedTuple):
    """Round 0 of a run."""

    archive: Archive
    harness: str
    checkpoint: str
    pair: str
    round: str


def begun(root: Path, run: str = RUN) -> Run:
    """A fresh repository whose run has round 0."""
    archive = Archive.open(repository(root), run)
    harness, checkpoint = seed_harness(archive), seed_checkpoint(archive)
    pair = measured(archive, "r000-seed", harness, checkpoint, 0.25)
    round_ = archive.record_round(
        RoundDraft(0, pair, False, "Round 0", pairs=(pair,), files={"round.json": b"{}\n"})
    )
    return Run(archive, harness, checkpoint, pair, round_)


def offspring(base: str, round_: int, slot: str, body: str, rejected: bool = False) -> HarnessDraft:
    return HarnessDraft(
        round_,
        slot,
        {**FILES, "harness.py": body.encode(), "evolution_report.md": f"{slot}\n".encode()},
        f"Try {slot}",
        base=base,
        adopts=(Adoption(base, "retry a malformed call"),),
        editor="recipes",
        lines_added=3,
        line_budget=500,
        check="smoke failed: no answer" if rejected else "passed",
        rejected=rejected,
    )


def one_round(run: Run, round_: int = 1) -> dict[str, str]:
    """A round with two offspring, one rejected, one merge, one pair; what each is called."""
    archive = run.archive
    k1, k2, k3 = archive.record_harnesses(
        [
            offspring(run.harness, round_, "k1", f"# {round_} one\n"),
            offspring(run.harness, round_, "k2", f"# {round_} two\n"),
            offspring(run.harness, round_, "k3", f"# {round_} three\n", rejected=True),
        ]
    )
    sft = archive.record_checkpoint(
        CheckpointDraft(
            f"r{round_:03d}-sft",
            round_,
            "sft",
            "6" * 64,
            "outs:\n- md5: 3\n",
            {"steps": 4},
            "# SFT\n",
            "Adapt",
            sources=(run.checkpoint,),
            trained_under=k1,
        )
    )
    merged = archive.record_checkpoint(
        CheckpointDraft(
            f"r{round_:03d}-k1-m1",
            round_,
            "ties",
            "7" * 64,
            "outs:\n- md5: 4\n",
            {"density": 0.5},
            "# TIES\n",
            "Merge",
            sources=(run.checkpoint, sft),
            alpha=(0.25, 0.75),
        )
    )
    pair = measured(archive, f"r{round_:03d}-k1-a", k1, merged, 0.5, round_)
    end = archive.record_round(
        RoundDraft(
            round_,
            pair,
            True,
            f"Round {round_}: promoted k1",
            gain=0.25,
            pairs=(pair,),
            files={"round.json": b'{"round": 1}\n', "briefs/k1.md": b"try\n"},
            costs={"prompt_tokens": 1234567, "wall_s": 1.5},
        )
    )
    return {"k1": k1, "k2": k2, "k3": k3, "sft": sft, "merged": merged, "pair": pair, "end": end}
