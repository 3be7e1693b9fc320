"""A scripted run repository in a temporary folder, driven by real git, DVC and console script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scripted
import yaml

BIN = Path(sys.executable).parent
TESTS = Path(__file__).parent


def environment(home: Path) -> dict[str, str]:
    """An environment of its own: no user's git configuration, the scripted parts importable."""
    keep = {"LANG", "TMPDIR"}
    return {
        **{key: value for key, value in os.environ.items() if key in keep},
        "PATH": f"{BIN}:/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": str(TESTS),
        "GIT_CONFIG_NOSYSTEM": "1",
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(home / "dvc-site"),
    }


def write_homes(folder: Path, homes: int = 6) -> Path:
    """A small data folder in HomeBench's layout whose every instruction switches something."""
    folder.mkdir(parents=True)
    devices = ("light", "air_conditioner")
    pools: dict[str, list[str]] = {"train_pool": [], "test_sample": []}
    lines = []
    for home in range(homes):
        rooms = [room.replace("dining", "ding").replace(" ", "_") for room in scripted.ROOMS]
        methods = [
            {"room_name": room, "device_name": device, "operation": f"turn_{way}", "parameters": []}
            for room in rooms
            for device in devices
            for way in ("on", "off")
        ]
        status = {
            room: {"room_name": room, **{d: {"state": "off", "attributes": {}} for d in devices}}
            for room in rooms
        }
        # Two homes of one state would make two tasks of one content.
        for number, room in enumerate(rooms[: home + 1]):
            status[room]["light"] = {"state": "on" if number == home else "off", "attributes": {}}
        lines.append(json.dumps({"home_id": home, "method": methods, "home_status": status}))
        for number, room in enumerate(scripted.ROOMS):
            for device in devices:
                said = f"Turn on the {device.replace('_', ' ')} in the {room}."
                row = {
                    "id": f"home{home}_one_{number}_{device}",
                    "input": said,
                    "output": f"'''{scripted.command(said)[1:-1]}'''",
                    "home_id": home,
                    "type": "normal",
                }
                pools["test_sample" if home >= homes - 2 else "train_pool"].append(json.dumps(row))
    (folder / "home_status_method.jsonl").write_text("\n".join(lines) + "\n")
    for name, rows in pools.items():
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    return folder


class RunRepository:
    """``folder`` is the repository; commands run as a user would run them."""

    def __init__(self, base: Path, **params: Any) -> None:
        self._place(base)
        self.home.mkdir(parents=True)
        data = write_homes(base / "homes")
        self.ok("coevo", "init", str(self.folder), "--data", str(data), cwd=base)
        checkpoint = scripted.write_checkpoint(base / "seed-checkpoint", 0.3, mark="seed")
        self.set_params(
            rounds=3,
            offspring=3,
            splits={"train": 24, "validation": 12, "test": 10},
            model={"seed": str(checkpoint)},
            serving={
                "backend": "scripted:ScriptedServer",
                "concurrency": 6,
                "options": {"log": str(self.log)},
            },
            inheritance={"merger": "scripted:merge", "preliminary": 4, "shortlist": 3, "merges": 1},
            adaptation={"trainer": "scripted:train", "tasks": 12, "samples": 2},
            promotion={"margin": 0.0},
        )
        self.set_params(**params)

    def _place(self, base: Path) -> None:
        self.base, self.folder = base, base / "run"
        self.home, self.log = base / "home", base / "completions.log"

    def copied(self, base: Path) -> RunRepository:
        """The same repository at another place; nothing of it points back here."""
        shutil.copytree(self.base, base, symlinks=True)
        made = object.__new__(RunRepository)
        made._place(base)
        path = made.folder / "params.yaml"
        path.write_text(path.read_text().replace(f"{self.base}/", f"{base}/"))
        return made

    def set_params(self, **changes: Any) -> None:
        path = self.folder / "params.yaml"
        known = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(known | changes, sort_keys=False))

    def slow(self, latency_s: float) -> None:
        """Give completions a latency, so that rollouts can be met in flight."""
        serving = yaml.safe_load((self.folder / "params.yaml").read_text())["serving"]
        serving["options"]["latency_s"] = latency_s
        self.set_params(serving=serving)

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=environment(self.home),
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def started(self, *command: str) -> subprocess.Popen[str]:
        """A command in a session of its own, so that its whole process group can be signalled."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment(self.home),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def fails(self, *command: str, code: int | None = None, cwd: Path | None = None) -> str:
        """What a command that must fail says: one line for a person, no traceback."""
        done = self.run(*command, cwd=cwd)
        said = f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode != 0, said
        assert code in (None, done.returncode), said
        assert "Traceback" not in done.stdout + done.stderr, said
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, said
        return errors[0]

    def refs(self) -> dict[str, str]:
        """Every ref with its commit."""
        rows = self.ok("git", "for-each-ref", "--format=%(refname) %(objectname)")
        return dict(row.split() for row in rows.splitlines())

    def sound(self) -> None:
        """Git finds nothing broken or missing."""
        done = self.run("git", "fsck", "--full", "--strict")
        assert done.returncode == 0, done.stderr

    def round(self) -> int:
        """The newest round in the archive, -1 before the first."""
        form = "%(contents:trailers:key=Coevo-Round,valueonly)"
        found = self.ok("git", "for-each-ref", f"--format={form}", "refs/heads/evo/evolution")
        return int(found or -1)

    def ok(self, *command: str, cwd: Path | None = None) -> str:
        done = self.run(*command, cwd=cwd)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def completions(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until it holds; fails after a while."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
