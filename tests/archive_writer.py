"""A process that writes to an archive until it is killed: python archive_writer.py ROOT ROUND.

It prints a line for every addition that is finished, so that a test knows what must be there.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

from archive_case import RUN, measured, offspring

from engine.archive import Archive, RoundDraft


def main(root: Path, round_: int, locked: bool) -> None:
    archive = Archive.open(root, RUN)
    with archive.lock() if locked else nullcontext():
        if locked:
            archive.recover()
        print("ready", flush=True)
        write(archive, round_)


def write(archive: Archive, round_: int) -> None:
    base, checkpoint = archive.harness("r000-seed").oid, archive.checkpoint("r000-seed").oid
    while True:
        drafts = [offspring(base, round_, f"k{i}", f"# {round_} {i}\n", i == 3) for i in (1, 2, 3)]
        k1, *_ = archive.record_harnesses(drafts)
        print(f"harness {round_}", flush=True)
        pair = measured(archive, f"r{round_:03d}-k1-a", k1, checkpoint, 0.5, round_)
        archive.record_round(RoundDraft(round_, pair, True, f"Round {round_}"))
        print(f"round {round_}", flush=True)
        round_ += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), len(sys.argv) < 4)
