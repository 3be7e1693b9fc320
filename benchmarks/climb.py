"""The climb of the full method and its ablations, as a table: resumable, hours on two cores.

    python benchmarks/climb.py --out ~/climb                      # all runs that are missing
    python benchmarks/climb.py --out ~/climb --only coevo-s0      # one of them
    python benchmarks/climb.py --out ~/climb --data ~/homebench   # with the real rows' beside

Each run is a run repository of its own below ``--out``; a broken-off one goes on where it stopped.
An ablation has the tasks of the full method's run of its seed, and takes from that run's journal
the rollouts that both would do (its time is what it took beyond these).
The baseline of every ratio is the seed pair, measured on the same test tasks in the same run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

BIN = Path(sys.executable).parent
ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    """One run of the table."""

    name: str
    mode: str
    seed: int
    data: Path | None = None


def plans(data: Path | None) -> Iterator[Plan]:
    for seed in range(3):
        yield Plan(f"coevo-s{seed}", "coevo", seed)
    if data:
        yield Plan("homebench-s0", "coevo", 0, data.resolve())
    for mode in ("harness-only", "model-only", "latest-only"):
        yield Plan(f"{mode}-s0", mode, 0)


def coevo(folder: Path, *arguments: str) -> str:
    """Run one command of ours in a run repository; its standard output."""
    done = subprocess.run(
        [str(BIN / "coevo"), *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"coevo {' '.join(arguments)} in {folder}: exit code {done.returncode}")
    return done.stdout


def run(plan: Plan, out: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    """Run a plan to its end; the facts for its row."""
    folder, result = out / plan.name, out / f"{plan.name}.json"
    if result.exists():
        return dict(json.loads(result.read_text()))
    if not (folder / "params.yaml").exists():
        data = ["--data", str(plan.data)] if plan.data else []
        coevo(out, "init", plan.name, *data)
        _share(out / f"coevo-s{plan.seed}" / ".coevo", folder / ".coevo", plan)
        params = yaml.safe_load((folder / "params.yaml").read_text())
        params |= {"mode": plan.mode, "seed": plan.seed, "rounds": ROUNDS} | overrides
        (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    done = _finished(folder)
    if done < ROUNDS:
        coevo(folder, "run", "--rounds", str(ROUNDS - max(done, 0)))
    facts = {
        "plan": plan.name,
        "mode": plan.mode,
        "seed": plan.seed,
        "rounds": [_facts(folder, commit) for commit in _rounds(folder)[: ROUNDS + 1]],
        "test": json.loads(coevo(folder, "test", "evo/evolution", "--json")),
    }
    result.write_text(json.dumps(facts, indent=1))
    return facts


def _share(source: Path, target: Path, plan: Plan) -> None:
    """Give an ablation the secret that generated tasks come from, and what is measured on them."""
    if plan.mode != "coevo" and (source / "secret").exists():
        (target / "journal").mkdir(parents=True)
        shutil.copy2(source / "secret", target / "secret")
        for journal in (source / "journal").iterdir():
            shutil.copy2(journal, target / "journal" / journal.name)


def _finished(folder: Path) -> int:
    """The last finished round, -1 before round 0."""
    done = subprocess.run(
        [str(BIN / "coevo"), "status", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return int(json.loads(done.stdout)["round"]) if done.returncode == 0 else -1


def _rounds(folder: Path) -> list[str]:
    """The commits of the finished rounds, round 0 first."""
    form = "--format=%H %(trailers:key=Coevo-Kind,valueonly,separator=)"
    log = _git(folder, "log", "--first-parent", "evo/evolution", form).splitlines()
    return [line.split()[0] for line in reversed(log) if line.endswith(" round")]


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def _facts(folder: Path, commit: str) -> dict[str, Any]:
    """A round as `coevo show` tells it, with what its candidates gained over the incumbent."""
    found = json.loads(coevo(folder, "show", commit, "--json"))
    if found["round"] == 0:  # it only measures the seed pair
        return {**found, "gains": {}}
    record = json.loads(_git(folder, "show", f"{commit}:round.json"))
    return {**found, "gains": record["promotion"]["gains"]}


def _promotion(found: dict[str, Any]) -> str:
    """What was promoted, and how much of its gain each side of the pair brought."""
    inherited, adapted = found["gains"].get("inherited"), found["gains"].get("adapted")
    name = f"{found['round']}: {found['incumbent']['name']}"
    if inherited is None:
        return f"{name} (adapted {adapted:+.3f})"
    if not found["incumbent"]["name"].endswith("-adapted"):
        return f"{name} (inherited {inherited:+.3f})"
    return f"{name} (inherited {inherited:+.3f}, adapted {adapted - inherited:+.3f} on top)"


def row(facts: dict[str, Any]) -> str:
    """One line of the table."""
    test, rounds = facts["test"], facts["rounds"]
    scores = " → ".join(f"{r['incumbent']['score']:.3f}" for r in rounds)
    promoted = "; ".join(_promotion(r) for r in rounds[1:] if r.get("promoted"))
    seed, final, diff = test["seed"]["score"], test["outcome"]["score"], test["difference"]
    seconds = [float(r["costs"].get("seconds", 0)) / 60 for r in rounds[1:]]
    return (
        f"| {facts['plan']} | {scores} | {promoted or 'none'} | {seed:.3f} | {final:.3f} | "
        f"{diff['mean']:+.3f} ({diff['low']:+.3f} to {diff['high']:+.3f}) | "
        f"{', '.join(f'{each:.1f}' for each in seconds)} |"
    )


def table(rows: Sequence[str]) -> str:
    head = (
        "| run | incumbent on V, rounds 0 to 3 | promoted | test: seed pair | test: final pair | "
        "difference (95 % paired bootstrap) | minutes a round |\n" + "|---" * 7 + "|"
    )
    return "\n".join([head, *rows]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="HomeBench's folder, for a run on real rows")
    parser.add_argument("--only", action="append", help="names of runs (repeatable)")
    parser.add_argument("--set", default="{}", help="params to override, as JSON")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for plan in plans(options.data):
        known = (options.out / f"{plan.name}.json").exists()
        if known or not options.only or plan.name in options.only:
            rows.append(row(run(plan, options.out, json.loads(options.set))))
    print(table(rows))
    (options.out / "table.md").write_text(table(rows))


if __name__ == "__main__":
    main()
