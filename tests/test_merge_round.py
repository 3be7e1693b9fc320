"""A round that merges twice, killed between a merge and its evaluation."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from runs import RunRepository, wait_for


def prepared(one_round: RunRepository, base: Path) -> RunRepository:
    run = one_round.copied(base)
    run.set_params(
        inheritance={
            "kind": "scripted:TwoMerges",
            "merger": "scripted:merge",
            "proposals": 2,
            "merges": 2,
            "preliminary": 4,
            "shortlist": 4,
        }
    )
    run.slow(0.05)
    return run


def merges(run: RunRepository) -> list[tuple[str, str]]:
    """Name and α of each merge that is archived, by its branch."""
    form = "%(refname:lstrip=4) %(contents:trailers:key=Coevo-Alpha,valueonly)"
    rows = run.ok("git", "for-each-ref", f"--format={form}", "refs/heads/evo/checkpoint/r002-m*")
    return sorted((row.split(" ", 1)[0], row.split(" ", 1)[1]) for row in rows.split("\n") if row)


def candidates(run: RunRepository) -> list[tuple[str, list[tuple[str, float]]]]:
    found = json.loads((run.folder / "round" / "candidates.json").read_text())
    return sorted((c["slot"], sorted(c["alpha"].items())) for c in found["candidates"])


def test_a_kill_between_merge_and_evaluation_loses_no_merge(
    one_round: RunRepository, tmp_path: Path
) -> None:
    quiet, killed = (prepared(one_round, tmp_path / name) for name in ("quiet", "killed"))
    quiet.ok("dvc", "repro")
    assert [name for name, _ in merges(quiet)] == ["r002-m1", "r002-m2"]
    before = set((killed.folder / "checkpoints").iterdir())
    process = killed.started("dvc", "repro")

    def merged() -> bool:
        now = {p for p in (killed.folder / "checkpoints").iterdir() if not p.name.startswith(".")}
        return len(now - before) >= 2

    wait_for(merged, 120)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert killed.round() == 1
    killed.ok("dvc", "repro")
    killed.sound()
    assert killed.round() == 2
    assert merges(killed) == merges(quiet)
    assert candidates(killed) == candidates(quiet)
    in_flight = 2 * 6
    assert len(killed.completions()) <= len(quiet.completions()) + in_flight
