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

    def with_hub(self, base: Path, hub: HubServer) -> HubRun:
        made = self.copied(base)
        made.__class__ = HubRun
        assert isinstance(made, HubRun)
        made.hub = hub
        return made

    def fault(self, name: str = "one", **fault: Any) -> None:
        (self.hub.hub.folder / "faults" / name).write_text(json.dumps(fault))

    def mend(self) -> None:
        for path in (self.hub.hub.folder / "faults").iterdir():
            path.unlink()

    def requests(self, part: str = "") -> list[str]:
        path = self.hub.hub.folder / "requests.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if part in line]


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
    """A run whose round 1 promoted a pair with other weights than the seed's."""
    run = HubRun.__new__(HubRun)
    run._place(base)
    with serving(base / "unused-hub") as hub:
        run.hub = hub
        runs.RunRepository.__init__(run, base, rounds=1, offspring=2)
        shutil.rmtree(base / "seed-checkpoint")
        write_seed(base / "seed-checkpoint")
        run.set_params(adaptation={"trainer": "hub_runs:train", "tasks": 12, "samples": 2})
        run.set_params(inheritance={"merger": "scripted:merge", "merges": 0, "preliminary": 4})
        run.ok("dvc", "repro")
    return run


def train(source: Path, dataset: Path, out: Path, settings: Any, seed: int, *rest: Any) -> Any:
    """The scripted trainer with real weights: they change, and the skill rises a lot."""
    import scripted
    import torch
    from safetensors.torch import load_file, save_file

    report = scripted.train(source, dataset, out, settings, seed, *rest)
    weights = {name: (w + torch.ones_like(w)) for name, w in load_file(
        source / "model.safetensors").items()}  # fmt: skip
    for path in source.iterdir():
        if not (out / path.name).exists() and path.is_file():
            shutil.copy(path, out / path.name)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, out / name)
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    (out / "skill.json").write_text(json.dumps({"skill": 0.95}))
    return report
