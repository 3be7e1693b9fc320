"""Where things lie in the world of an update session. The same in every session."""

from __future__ import annotations

APP = "/app"
WORKSPACE = f"{APP}/harness_workspace"
KERNEL = f"{APP}/harness_kernel"
BASE = f"{APP}/harness_base"
TRIALS = f"{APP}/eval_trials"
PREVIOUS = f"{TRIALS}/previous_update"
LOGS = "/logs/agent"
NOTES = "evolve_notes.md"


def smoke_command(budget: int) -> str:
    """The checks that a session can run itself; they also count its added lines."""
    return (
        f"cd {KERNEL} && python3 -B -m kernel.smoke {WORKSPACE} --base {BASE} "
        f"--budget {budget} --inside"
    )
