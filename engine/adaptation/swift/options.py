"""``adaptation.options`` of the trainer ``swift``, and where its program is."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import ConfigError

VERSION = "4.6.0"
"""Of ms-swift: the one whose parser accepts every command here."""

INSTALL = f"pip install ms-swift=={VERSION} deepspeed==0.19.8 transformers==5.19.0"


@dataclass(frozen=True)
class SwiftOptions:
    """``command`` is ms-swift's ``swift``: a name on the PATH or a path into its environment.

    ``devices`` GPUs on each of ``nodes`` machines; with more than one machine, the others run the
    script that the log names with ``NODE_RANK`` set. ``deepspeed`` '' trains without it.
    ``model_type`` is ms-swift's name of the architecture, by default the checkpoint's own.
    ``save_steps``: how often a state is kept to go on from. ``cpu``: train without a GPU. ``args``
    are further arguments, ``env`` further variables.
    """

    command: str = "swift"
    devices: int = 1
    nodes: int = 1
    master_addr: str = "127.0.0.1"
    master_port: int = 29500
    sequence_parallel: int = 1
    deepspeed: str = "zero3"
    gradient_checkpointing: bool = True
    model_type: str = ""
    save_steps: int = 100
    cpu: bool = False
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)

    def accumulation(self, batch_size: int) -> int:
        """Batches of one sequence that each group of devices adds up to ``batch_size`` sequences.
        Raises ConfigError where that is no whole number, with the nearest that are."""
        devices = self.devices * self.nodes
        if devices % self.sequence_parallel:
            raise ConfigError(
                f"adaptation.options: sequence_parallel {self.sequence_parallel} doesn't divide "
                f"the {devices} devices; choose a divisor"
            )
        at_once = devices // self.sequence_parallel
        if batch_size % at_once:
            near = max(1, round(batch_size / at_once)) * at_once
            raise ConfigError(
                f"adaptation.batch_size: {batch_size} sequences can't be shared out to {at_once} "
                f"at a time ({devices} devices, sequence_parallel {self.sequence_parallel}); "
                f"set {near}, or other devices"
            )
        return batch_size // at_once


def find_program(command: str) -> str:
    """ms-swift's program. Raises ConfigError where it isn't there, or is another's of that name
    (a programming language's compiler is called so, too)."""
    path = shutil.which(str(Path(command).expanduser()))
    mend = (
        f"make an environment for it ({INSTALL}) and name its bin/swift in "
        "adaptation.options.command, or set adaptation.trainer: transformers"
    )
    if path is None:
        raise ConfigError(f"adaptation.options.command: {command!r} is no program here; {mend}")
    with Path(path).open("rb") as script:
        head = script.read(4096)
    if b"swift.cli" not in head:
        raise ConfigError(f"adaptation.options.command: {path} is not ms-swift; {mend}")
    return path
