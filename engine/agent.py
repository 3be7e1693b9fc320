"""A ready-to-run agent outside the archive: harness, checkpoint, and a script that answers."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import kernel.host
from engine.context import Context
from engine.domains import Task, rollout_limits
from engine.domains.registry import domain as find_domain
from engine.errors import CoevoError, ConfigError, DataError, ModelError, SandboxError
from engine.params import Params
from engine.replaying import as_of
from engine.serving import server as make_server
from engine.workspace import read_workspace, write_workspace
from kernel.contract import ModelUnavailable
from kernel.sandbox import SandboxUnavailable, WorkerLost

_RUN = """#!/bin/sh
# Serves the checkpoint beside this script and answers one instruction in the world of world.json.
exec {python} -P -m engine.agent "$(dirname -- "$0")" "$@"
"""


def check_out(context: Context, pair_oid: str, folder: Path) -> None:
    """Write an archived pair below ``folder``, with the parameters that its round was run with.
    Raises ConfigError where that isn't empty."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: not empty; name a new or empty folder")
    pair = context.archive.pair(pair_oid)
    agent = context.agent(pair.harness, pair.checkpoint)
    write_workspace(agent.files, folder / "harness")
    shutil.copytree(agent.folder, folder / "checkpoint")
    sample = context.tasks("train")[0]
    task = context.domain.practice(sample, sample.instruction)
    (folder / "world.json").write_text(json.dumps(asdict(task), indent=1) + "\n")
    write_settings(folder, pair_oid, agent.weights, as_of(context, pair.round).params)


def write_settings(folder: Path, pair_oid: str, weights: str, params: Params) -> None:
    """What makes ``harness/``, ``checkpoint/`` and ``world.json`` run: agent.json and run.sh."""
    settings = {"pair": pair_oid, "weights": weights, "params": params.model_dump(mode="json")}
    (folder / "agent.json").write_text(json.dumps(settings, indent=1) + "\n")
    script = folder / "run.sh"
    script.write_text(_RUN.format(python=shlex.quote(sys.executable)))
    script.chmod(0o755)


async def answer(folder: Path, instruction: str) -> str:
    """Serve the agent in ``folder`` and run it once: its answer, as JSON where it is no text.

    Raises DataError for a folder that is none, ModelError and SandboxError where it can't be run
    here.
    """
    try:
        settings = json.loads((folder / "agent.json").read_text())
        task = Task(**json.loads((folder / "world.json").read_text()))
        params, weights = Params.model_validate(settings["params"]), settings["weights"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"{folder}: not a checked-out agent ({error}); `coevo use` makes one"
        ) from None
    domain = find_domain(params.domain)
    task = domain.practice(task, instruction or task.instruction)
    server = make_server(params.serving, folder.resolve() / ".coevo")
    await server.start()
    try:
        async with kernel.host.WorkerPool(sandbox=params.sandbox) as pool:
            trajectory = await pool.run(
                read_workspace(folder / "harness"),
                task.instruction,
                server.model(folder.resolve() / "checkpoint", weights),
                domain.world(task),
                rollout_limits(domain, params),
                params.sampling.sampling(),
                params.seed,
            )
    except ModelUnavailable as error:
        raise ModelError(str(error)) from None
    except (SandboxUnavailable, WorkerLost) as error:
        raise SandboxError(
            f"no sandbox works here ({error}); install bubblewrap, or set `sandbox` to `none` in "
            f"{folder / 'agent.json'} to run evolved code unconfined"
        ) from None
    finally:
        await server.stop()
    if trajectory.answer is None:
        return f"({trajectory.end})"
    given = trajectory.answer
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def main(folder: str, *words: str) -> int:
    """What ``run.sh`` does: print the answer, or one line that says why there is none."""
    try:
        print(asyncio.run(answer(Path(folder), " ".join(words))))
    except CoevoError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
