"""An agent's sandbox in which every shell is the task's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.editors.sessions import places
from engine.editors.sessions.room import Room, interpreter
from engine.solvers import inside_shell

APP = "/app"
_SHELLS = ("bash", "sh", "zsh")
_PASSWD = "solver:x:1000:1000:solver:{home}:{shell}\n"


@dataclass(frozen=True)
class SolverRoom(Room):
    """``world`` is the socket to the task; the view of an archive is an empty folder."""

    world: Path = Path()

    def furnish(self, given: Mapping[str, str]) -> None:
        """As ``Room.furnish``, with shells that run their commands in the task's."""
        shell = f"{places.SESSION}/bin/bash"
        passwd = _PASSWD.format(home=places.HOME, shell=shell)
        code = Path(inside_shell.__file__).read_text("utf-8")
        facts = {"passwd": passwd, "world.sock": "", "inside_shell.py": code}
        super().furnish({**facts, **given})
        self.view.mkdir(exist_ok=True)
        for name in (*_SHELLS, "world"):
            path = self.shown / "bin" / name
            path.write_text(
                f"#!{interpreter()} -sPB\nimport runpy, sys\n"
                f"sys.argv = ['inside_shell.py', '{name}', *sys.argv[1:]]\n"
                f"runpy.run_path('{places.SESSION}/inside_shell.py', run_name='__main__')\n"
            )
            path.chmod(0o755)

    def arguments(self, environment: Mapping[str, str], socket: Path | None) -> list[str]:
        """As ``Room.arguments``; ``/app`` is there, and empty: what is in it is the task's."""
        own = {"SHELL": f"{places.SESSION}/bin/bash", **environment}
        *options, remount, root = super().arguments(own, socket)
        options += ["--ro-bind", str(self.world), f"{places.SESSION}/world.sock", "--dir", APP]
        return [*options, remount, root]
