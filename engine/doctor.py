"""What works on this machine and in this repository, and how to mend what doesn't."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.errors import CoevoError
from engine.params import Params, find_root, load
from engine.pipeline import obstacles
from engine.requirements import Finding, required
from kernel import sandbox


def examine(start: Path, planned: Params | None = None) -> list[Finding]:
    """All findings: of the machine, and of the repository that holds ``start`` with what its
    parameters need; with ``planned`` what those need, whether or not there is a repository."""
    findings = _machine()
    if planned is not None:
        return [*findings, *required(planned, start)]
    try:
        root = find_root(start)
        params = load(root / "params.yaml")
    except CoevoError as error:
        return [*findings, Finding("run repository", False, True, str(error), "coevo init DIR")]
    findings.append(Finding("run repository", True, True, f"{root}, run {params.run}"))
    return [*findings, *_repository(root, params), *required(params, root)]


def _machine() -> list[Finding]:
    return [
        _package("dvc"),
        _program("git", "install git"),
        _sandbox(),
        _package("torch", needed=False, mend="pip install 'coevo[embedded]'"),
        _package("transformers", needed=False, mend="pip install 'coevo[embedded]'"),
        _package("mergekit", needed=False, mend="pip install 'coevo[embedded]'"),
        _gpu(),
        _package("vllm", needed=False, mend="pip install vllm (with a GPU), or serving: embedded"),
    ]


def _repository(root: Path, params: Params) -> Iterator[Finding]:
    yield _disk(root)
    yield _pipeline(root)
    yield _attempt("archive", True, lambda: _archive(root, params))
    yield _attempt("DVC remote", False, lambda: _remote(root))


def _pipeline(root: Path) -> Finding:
    found = obstacles(root)
    if not found:
        return Finding("DVC's files", True, True, "nothing in the way of dvc repro")
    [(path, problem), *_] = found.items()
    mend = f"rm {' '.join(map(str, found))} (coevo run does so)"
    return Finding("DVC's files", False, True, f"{path}: {problem}", mend)


def _attempt(name: str, needed: bool, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, needed, look())
    except CoevoError as error:
        return Finding(name, False, needed, str(error))


def _archive(root: Path, params: Params) -> str:
    from engine.archive import Archive

    archive = Archive.open(root, params.run)
    tip = archive.tip()
    return "no round yet" if tip is None else f"round {tip.round}, {tip.oid[:12]}"


def _remote(root: Path) -> str:
    from dvc.repo import Repo

    with Repo(str(root)) as repo:
        name = repo.config["core"].get("remote")
        url = repo.config["remote"].get(name, {}).get("url") if name else None
    if not url:
        raise CoevoError("none; `dvc remote add -d NAME URL`, so that others can replay")
    return f"{name}: {url}"


def _disk(root: Path) -> Finding:
    free = shutil.disk_usage(root).free / 1e9
    return Finding(
        "disk",
        free > 5,
        False,
        f"{free:.0f} GB free",
        "a round of the embedded model takes about 1 GB; free some",
    )


def _sandbox() -> Finding:
    reason = sandbox.available()
    return Finding(
        "sandbox",
        not reason,
        True,
        reason or "bubblewrap works",
        "install bubblewrap, or set `sandbox: none` in params.yaml",
    )


def _program(name: str, mend: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, path is not None, True, path or "not on the PATH", mend)


def _package(name: str, *, needed: bool = True, mend: str = "pip install coevo") -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(name, False, needed, "not installed", mend)
    return Finding(name, True, needed, importlib.metadata.version(name))


def _gpu() -> Finding:
    path = shutil.which("nvidia-smi")
    return Finding(
        "GPU",
        path is not None,
        False,
        path or "no NVIDIA GPU",
        "none is needed for the embedded model",
    )
