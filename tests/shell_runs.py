"""Run repositories on the toy of terminal tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import scripted
from runs import RunRepository

SERVING = {"backend": "shell_domain:ShellServer", "concurrency": 6}


def shell_run(base: Path, **params: Any) -> RunRepository:
    """Before round 0; harnesses only, one offspring."""
    checkpoint = scripted.write_checkpoint(base / "shell-checkpoint", 0.5, mark="shell")
    run = RunRepository(
        base / "base",
        domain="shell_domain:DOMAIN",
        data=None,
        mode="harness-only",
        offspring=1,
        rounds=1,
        splits={"train": 12, "validation": 12, "test": 18},
        model={"seed": str(checkpoint)},
        serving=SERVING,
        inheritance={"preliminary": 2},
    )
    run.set_params(**params)
    secret = run.folder / ".coevo" / "secret"
    secret.parent.mkdir(exist_ok=True)
    secret.write_bytes(bytes(range(32)))
    return run
