"""What a round's editor sessions cost beyond their own time.

    python benchmarks/editor_sessions.py [--sessions 8] [--seconds 2] [--harnesses 1]

Runs the edit stage of a scripted run with that many agents side by side, each of which works for
``--seconds`` and leaves an offspring; what the stage takes beyond the longest session's own time is
the engine's overhead: the view, the sandboxes, what is read of each session, its record in DVC, the
checks with their smoke episodes, the archive. ``--harnesses`` fills the archive first. Exits with 1
when the overhead is more than promised.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from runs import RunRepository  # noqa: E402
from session_runs import planned, sessions, stages  # noqa: E402

from engine.archive import Archive, HarnessDraft  # noqa: E402

MOST_S = 10.0


def fill(run: RunRepository, harnesses: int) -> None:
    """Archive offspring of round 0's seed until there are so many, as rounds before would have."""
    archive = Archive.open(run.folder, "evo")
    seed = archive.harness("harness/r000-seed")
    drafts = []
    for number in range(1, harnesses):
        line = f"\nMARK = {number}\n".encode()
        files = {**seed.files, "harness.py": seed.files["harness.py"] + line}
        drafts.append(HarnessDraft(0, f"k{number}", files, f"Mark {number}", seed.oid))
    archive.record_harnesses(drafts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--harnesses", type=int, default=1)
    options = parser.parse_args()
    slots = [f"k{number}" for number in range(1, options.sessions + 1)]
    plan = {slot: ["good", *["second"] * options.seconds] for slot in slots}
    with tempfile.TemporaryDirectory() as scratch:
        run = planned(Path(scratch) / "run", options.sessions, plan)
        stages(run, "open")
        fill(run, options.harnesses)
        stages(run, "observe", "curate")
        began = time.monotonic()
        stages(run, "edit")
        whole = time.monotonic() - began
        records = [sessions(run) / slot / "record" / "session.json" for slot in slots]
        own = [json.loads(path.read_text())["seconds"] for path in records]
        valid = run.ok("git", "for-each-ref", "refs/heads/evo/harness").count("/r001-k")
    overhead = whole - max(own)
    print(f"{valid} of {len(slots)} offspring valid, {options.harnesses} harnesses archived before")
    print(f"stage {whole:.2f} s, longest session {max(own):.2f} s, overhead {overhead:.2f} s")
    print(f"promised: below {MOST_S:g} s")
    return 0 if overhead < MOST_S and valid == len(slots) else 1


if __name__ == "__main__":
    sys.exit(main())
