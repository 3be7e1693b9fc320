"""Harbor's task folders: ``instruction.md``, ``task.toml``, ``environment/``, ``tests/``.

Read without Harbor. Only what one sandboxed shell can run is taken: a single step, Linux, no image.
"""

from __future__ import annotations

import base64
import io
import tarfile
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from engine.errors import DataError

EMPTY = b"\0" * 10240
"""A tar archive of nothing."""

_IMAGES = ("Dockerfile", "docker-compose.yaml", "docker-compose.yml", "singularity-compose.yaml")
_LARGEST = 64 * 2**20


@dataclass(frozen=True)
class HarborTask:
    """One task folder. Times in seconds; ``files``, ``tests`` and ``solution`` are tar archives."""

    name: str
    instruction: str
    workdir: str
    tags: tuple[str, ...]
    files: bytes
    tests: bytes
    solution: bytes
    verifier_s: float
    environment: Mapping[str, str]
    verifier: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """All of it, so that frozen tasks need the folder no more."""
        body = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: _spelled(v) if isinstance(v, bytes) else v for k, v in body.items()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> HarborTask:
        archives = {name: _read(body[name]) for name in ("files", "tests", "solution")}
        return cls(**{**body, **archives, "tags": tuple(body["tags"])})


def _spelled(archive: bytes) -> str:
    return base64.b64encode(zlib.compress(archive, 9)).decode()


def _read(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def tasks(data: Path) -> Iterator[Path]:
    """The task folders in a data set's folder, or that folder itself."""
    if (data / "task.toml").is_file():
        yield data
        return
    yield from sorted(path.parent for path in data.glob("*/task.toml"))


def read(path: Path) -> HarborTask:
    """Raises DataError naming the file and key of what is missing, broken or can't run here."""
    config = _config(path / "task.toml")
    environment, verifier = _table(config, "environment"), _table(config, "verifier")
    if config.get("steps"):
        raise DataError(f"{path}/task.toml: steps: tasks of several steps can't run here")
    if environment.get("os", "linux") != "linux":
        raise DataError(f"{path}/task.toml: environment.os: only linux runs here")
    refuse_images(path / "environment", environment.get("docker_image"))
    if not (path / "tests" / "test.sh").is_file():
        raise DataError(f"{path}/tests/test.sh: missing, so nothing can be graded")
    instruction = path / "instruction.md"
    if not instruction.is_file():
        raise DataError(f"{instruction}: missing")
    said = _table(config, "metadata")
    named = _table(config, "task").get("name", path.name)
    return HarborTask(
        name=str(named),
        instruction=instruction.read_text("utf-8").strip(),
        workdir=str(environment.get("workdir") or "/app"),
        tags=tuple(str(each) for each in (said.get("category"), said.get("difficulty")) if each),
        files=archive(path / "environment"),
        tests=archive(path / "tests"),
        solution=archive(path / "solution"),
        verifier_s=float(verifier.get("timeout_sec", 600.0)),
        environment=_variables(environment, path),
        verifier=_variables(verifier, path),
    )


def refuse_images(environment: Path, image: str | None) -> None:
    """Raises DataError for an environment that has to be built or pulled."""
    needs = [name for name in _IMAGES if (environment / name).is_file()]
    if image or needs:
        what = f"docker_image {image!r}" if image else needs[0]
        raise DataError(
            f"{environment}: needs a container ({what}), and a sandboxed shell has none; run it "
            "by Harbor with an environment of its own (`harbor run --agent "
            "engine.harbor.agent:CoevoAgent --env docker`)"
        )


def archive(folder: Path) -> bytes:
    """A folder's files as a tar archive, the same for the same files; empty where there is none.
    Raises DataError where it is too large."""
    buffer = io.BytesIO()
    total = 0
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
            total += path.stat().st_size
            if total > _LARGEST:
                raise DataError(f"{folder}: more than {_LARGEST // 2**20} MiB")
            _add(packed, path.relative_to(folder).as_posix(), path)
    return buffer.getvalue()


def one(name: str, path: Path) -> bytes:
    """One file as an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        _add(packed, name, path)
    return buffer.getvalue()


def _add(packed: tarfile.TarFile, name: str, path: Path) -> None:
    member = tarfile.TarInfo(name)
    data = path.read_bytes()
    member.size, member.mode = len(data), 0o755 if path.stat().st_mode & 0o100 else 0o644
    packed.addfile(member, io.BytesIO(data))


def _config(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from None


def _table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = config.get(name) or {}
    if not isinstance(value, Mapping):
        raise DataError(f"task.toml: {name}: expected a table, got {type(value).__name__}")
    return value


def _variables(table: Mapping[str, Any], path: Path) -> Mapping[str, str]:
    found = {str(name): str(value) for name, value in _table(table, "env").items()}
    for name, value in found.items():
        if "${" in value:
            raise DataError(f"{path}/task.toml: env.{name}: takes {value} from the host: not here")
    return found
