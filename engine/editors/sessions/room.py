"""A session's sandbox: what is mounted where, and nothing else of this machine.

Writable are the session's own folder, a home and a tmp of limited size. The archive's view, the
prompt, the kernel and the agent's own program are read-only. No network but loopback, no key, no
home of the user's, no run repository.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import kernel
from engine.editors.sessions import places
from engine.errors import ConfigError, SandboxError
from engine.llm import bridge

_SYSTEM = ("/usr",)
_LINKS = ("/bin", "/lib", "/lib64", "/sbin")
_SETTINGS = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs", "/etc/localtime")
_CHECKERS = (
    "jsonschema",
    "jsonschema_specifications",
    "referencing",
    "rpds",
    "attr",
    "attrs",
    "typing_extensions",
)
"""What ``kernel.smoke`` needs beside the standard library."""

_PASSWD = "editor:x:1000:1000:editor:{home}:/bin/sh\n"


@dataclass(frozen=True)
class Room:
    """The folders of one session on this machine, and what it may read beside them."""

    folder: Path
    view: Path
    mounts: tuple[Path, ...] = ()
    programs: Mapping[str, Path] | None = None
    scratch_bytes: int = 256 * 2**20

    @property
    def work(self) -> Path:
        """Where the session writes."""
        return self.folder / "work"

    @property
    def candidate(self) -> Path:
        return self.work / "candidate"

    @property
    def shown(self) -> Path:
        """What the session is given to read beside the view: prompt, checks, programs."""
        return self.folder / "shown"

    def furnish(self, given: Mapping[str, str]) -> None:
        """Make the folders and write ``given`` (file name -> text) for the session to read."""
        for path in (self.candidate, self.shown / "bin"):
            path.mkdir(parents=True)
        facts = {
            "passwd": _PASSWD.format(home=places.HOME),
            "hosts": "127.0.0.1 localhost\n",
            "llm.sock": "",
        }
        for name, text in {**facts, **given}.items():
            (self.shown / name).write_text(text, "utf-8")
        for name, path in (self.programs or {}).items():
            (self.shown / "bin" / name).symlink_to(path)

    def arguments(self, environment: Mapping[str, str], socket: Path | None) -> list[str]:
        """bubblewrap's options. ``socket`` is the session's door to its model."""
        options = ["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
        options += ["--uid", "1000", "--gid", "1000", "--hostname", "editor"]
        options += ["--die-with-parent", "--new-session", "--clearenv"]
        for name, value in {**self._environment(), **environment}.items():
            options += ["--setenv", name, value]
        options += _system()
        options += ["--proc", "/proc", "--dev", "/dev"]
        for own in ("/tmp", places.HOME):
            options += ["--size", str(self.scratch_bytes), "--perms", "0700", "--tmpfs", own]
        for path in self.mounts:
            options += ["--ro-bind", str(path), str(path)]
        options += ["--ro-bind", str(self.view), places.ARCHIVE]
        options += ["--ro-bind", str(self.shown), places.SESSION]
        options += ["--ro-bind", str(self.shown / "passwd"), "/etc/passwd"]
        options += ["--ro-bind", str(self.shown / "hosts"), "/etc/hosts"]
        if socket is not None:
            options += ["--ro-bind", str(socket), places.SOCKET]
        for name, source in _library().items():
            options += ["--ro-bind", str(source), f"{places.LIBRARY}/{name}"]
        options += ["--bind", str(self.work), places.BESIDE, "--chdir", places.CANDIDATE]
        return [*options, "--remount-ro", "/"]

    def _environment(self) -> Mapping[str, str]:
        own = [f"{places.SESSION}/bin", str(interpreter().parent)]
        return {
            "PATH": ":".join([*own, "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": places.HOME,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "NO_COLOR": "1",
        }


def interpreter() -> Path:
    """The Python that scripts inside run with."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


def bwrap() -> str:
    """The sandbox program. Raises SandboxError where it is missing."""
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxError(
            "editors that are agents run under bubblewrap, and there is no `bwrap` on PATH; "
            "install it (`apt-get install bubblewrap`), or use `editors: {kind: recipes}`"
        )
    return found


def unlock(folder: Path) -> None:
    """Undo what a session took away from itself, and so from its user, by ``chmod``."""
    _quietly("chmod", "-R", "u+rwX", "--", str(folder))


def remove(folder: Path) -> None:
    """Remove what a session wrote, however deep and with whatever rights: Python's own way would
    recurse as deep."""
    _quietly("rm", "-rf", "--", str(folder))
    if folder.exists():
        unlock(folder)
        _quietly("rm", "-rf", "--", str(folder))


def _quietly(*command: str) -> None:
    subprocess.run(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, close_fds=True
    )


def refuse_wide(mounts: Sequence[Path], root: Path) -> None:
    """Raises ConfigError for a mount that would show a session the run repository or a home."""
    closed = {"the run repository": root.resolve(), "your home": Path.home().resolve()}
    for path in (*mounts, *map(Path, _SYSTEM)):
        for name, folder in closed.items():
            if folder.is_relative_to(path.resolve()):
                raise ConfigError(
                    f"editors: {path} would be mounted for the sessions and {name} ({folder}) lies "
                    "in it; install the agent in a folder of its own"
                )
        if path.resolve().is_relative_to(root.resolve() / ".coevo"):
            raise ConfigError(f"editors: {path} lies in .coevo, which no session may see")


def checkers() -> dict[str, Path]:
    """What ``kernel.smoke`` needs beside Python's own library: file or folder name -> where."""
    found = {}
    for name in _CHECKERS:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin)
            whole = path.parent if path.name == "__init__.py" else path
            found[whole.name] = whole
    return found


def _library() -> dict[str, Path]:
    own = Path(__file__).parent
    return {
        "kernel": Path(kernel.__file__).parent,
        "inside.py": own / "inside.py",
        "chat_agent.py": own / "chat_agent.py",
        "bridge.py": Path(bridge.__file__),
        **{f"site/{name}": path for name, path in checkers().items()},
    }


def _system() -> list[str]:
    options: list[str] = []
    prefix = Path(sys.base_prefix).resolve()
    folders = [*map(Path, _SYSTEM), *([] if prefix.is_relative_to("/usr") else [prefix])]
    for path in folders:
        options += ["--ro-bind", str(path), str(path)]
    for path in map(Path, _LINKS):
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            options += ["--ro-bind", str(path), str(path)]
    for path in map(Path, _SETTINGS):
        options += ["--ro-bind-try", str(path), str(path)]
    return options
