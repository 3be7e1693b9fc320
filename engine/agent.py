"""A ready-to-run agent outside the archive: harness, checkpoint, and a script that answers."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kernel.host
from engine.context import Context
from engine.domains import Task
from engine.domains.registry import domain as find_domain
from engine.errors import ConfigError, DataError, ModelError
from engine.params import Params
from engine.serving import server as make_server
from engine.workspace import read_workspace, write_workspace
from kernel.contract import ModelUnavailable

_RUN = """#!/bin/sh
# Serves the checkpoint beside this script and answers one instruction in the world of world.json.
exec "{python}" -m engine.agent "$(dirname "$0")" "$@"
"""


def check_out(context: Context, pair_oid: str, folder: Path) -> None:
    """Write an archived pair below ``folder``. Raises ConfigError where that isn't empty."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: not empty; name a new or empty folder")
    pair = context.archive.pair(pair_oid)
    agent = context.agent(pair.harness, pair.checkpoint)
    write_workspace(agent.files, folder / "harness")
    shutil.copytree(agent.folder, folder / "checkpoint")
    sample = context.tasks("train")[0]
    task = context.domain.practice(sample, sample.instruction)
    settings = {
        "pair": pair_oid,
        "weights": agent.weights,
        "params": context.params.model_dump(mode="json"),
    }
    (folder / "agent.json").write_text(json.dumps(settings, indent=1) + "\n")
    (folder / "world.json").write_text(json.dumps(asdict(task), indent=1) + "\n")
    script = folder / "run.sh"
    script.write_text(_RUN.format(python=sys.executable))
    script.chmod(0o755)


async def answer(folder: Path, instruction: str) -> Any:
    """Serve the agent in ``folder`` and run it once. Raises DataError for a folder that is none."""
    try:
        settings = json.loads((folder / "agent.json").read_text())
        task = Task(**json.loads((folder / "world.json").read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{folder}: not a checked-out agent ({error}); `coevo use` makes one"
        ) from None
    params = Params.model_validate(settings["params"])
    domain = find_domain(params.domain)
    task = domain.practice(task, instruction or task.instruction)
    server = make_server(params.serving, folder.resolve() / ".coevo")
    await server.start()
    try:
        async with kernel.host.WorkerPool(sandbox=params.sandbox) as pool:
            trajectory = await pool.run(
                read_workspace(folder / "harness"),
                task.instruction,
                server.model(folder.resolve() / "checkpoint", settings["weights"]),
                domain.world(task),
                params.limits.limits(domain.turn_limit),
                params.sampling.sampling(),
                params.seed,
            )
    except ModelUnavailable as error:
        raise ModelError(str(error)) from None
    finally:
        await server.stop()
    return trajectory.answer if trajectory.answer is not None else f"({trajectory.end})"


if __name__ == "__main__":
    print(asyncio.run(answer(Path(sys.argv[1]), " ".join(sys.argv[2:]))))
