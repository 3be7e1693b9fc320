"""A run of tiny but real checkpoints, and a Hub on this machine that it can be pushed to."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pico
import runs
from hub_server import HubServer

from engine.archive.drafts import CheckpointDraft, HarnessDraft, PairDraft, RoundDraft
from engine.context import open_context
from engine.observer import Silent
from engine.params import load

REPO = "org/agent"


class HubRun(runs.RunRepository):
    """A run repository whose commands meet the local Hub, as ``token``."""

    hub: HubServer
    token = "hf_write"

    def environment(self) -> dict[str, str]:
        return {
            **runs.environment(self.home),
            "HF_ENDPOINT": self.hub.url,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HOME": str(self.home / "hf"),
            "HF_HUB_DOWNLOAD_TIMEOUT": "5",
            **({"HF_TOKEN": self.token} if self.token else {}),
        }

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def started(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def json(self, *command: str, cwd: Path | None = None) -> Any:
        return json.loads(self.ok(*command, "--json", cwd=cwd))

    def fault(self, name: str = "one", **fault: Any) -> None:
        (self.hub.hub.folder / "faults" / name).write_text(json.dumps(fault))

    def mend(self) -> None:
        for path in (self.hub.hub.folder / "faults").iterdir():
            path.unlink()

    def requests(self, part: str = "") -> list[str]:
        path = self.hub.hub.folder / "requests.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if part in line]


def with_hub(run: runs.RunRepository, base: Path, hub: HubServer) -> HubRun:
    """A copy of ``run`` at ``base`` whose commands meet ``hub``."""
    made = run.copied(base)
    made.__class__ = HubRun
    assert isinstance(made, HubRun)
    made.hub = hub
    return made


@contextmanager
def serving(folder: Path) -> Iterator[HubServer]:
    server = HubServer(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_seed(folder: Path) -> Path:
    """A pico Llama that the scripted server serves, its card with a license."""
    pico.write_checkpoint(folder)
    (folder / "skill.json").write_text(json.dumps({"skill": 0.3}))
    (folder / "README.md").write_text(
        "---\nlicense: apache-2.0\nbase_model: tiny/llama\n---\n# pico\n"
    )
    return folder


def two_pairs(base: Path) -> HubRun:
    """A run whose round 0 was really run, and whose round 1 promoted a pair of other weights; the
    scores of that one are made up."""
    run = HubRun.__new__(HubRun)
    run._place(base)
    with serving(base / "no-hub") as run.hub:
        runs.RunRepository.__init__(run, base, rounds=1)
        shutil.rmtree(base / "seed-checkpoint")
        write_seed(base / "seed-checkpoint")
        run.ok("coevo", "stage", "open")
    _second_round(run.folder)
    return run


def _second_round(folder: Path) -> None:
    context = open_context(folder, load(folder / "params.yaml"), Silent())
    archive = context.archive
    seed = archive.pair("r000-seed")
    harness = archive.record_harness(
        HarnessDraft(
            round=1,
            slot="k1",
            files={**archive.harness(seed.harness).files, "notes.txt": b"think twice\n"},
            base=seed.harness,
            editor="by hand",
            lines_added=1,
            line_budget=None,
            check="passed",
            subject="Think twice",
        )
    )
    folder_of_weights = pico.write_checkpoint(folder / ".coevo" / "training" / "r001-sft", seed=1)
    (folder_of_weights / "skill.json").write_text(json.dumps({"skill": 0.9}))
    stored = context.checkpoints.add(folder_of_weights)
    data = folder / "data.jsonl"
    data.write_text('{"messages": []}\n')
    checkpoint = archive.record_checkpoint(
        CheckpointDraft(
            name="r001-sft",
            round=1,
            method="sft",
            sources=(seed.checkpoint,),
            alpha=(1.0,),
            trained_under=harness,
            weights=stored.digest,
            dvc=stored.dvc_text,
            provenance={"dataset": context.dvc.add(data), "trained": 7},
            card="# r001-sft\n",
            subject="Adapt r001-sft",
        )
    )
    outcome = {**seed.outcome, "score": 1.0, "eval_key": "f" * 24}
    outcome["by_task"] = {task: [1.0] for task in seed.outcome["by_task"]}
    pair = archive.record_pair(
        PairDraft(
            name="r001-adapted",
            round=1,
            harness=harness,
            checkpoint=checkpoint,
            outcome=outcome,
            rollouts_dvc=archive.read(seed.oid, "rollouts.dvc").decode(),
            split="validation",
            eval_key="f" * 24,
            subject="Measure r001-adapted: score 1.000",
        )
    )
    archive.record_round(
        RoundDraft(
            round=1,
            incumbent=pair,
            promoted=True,
            subject="Round 1: promote the adapted pair",
            files=dict(context.pipeline_files()),
        )
    )
