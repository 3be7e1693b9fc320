"""A fresh run repository: git, DVC, the pipeline and its parameters."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import yaml

from engine.archive import Archive
from engine.archive.refs import check_run
from engine.domains.registry import domain as find_domain
from engine.errors import ConfigError, DataError

_FILES = {"dvc.yaml": "dvc.yaml", "gitignore": ".gitignore"}


def init_repository(folder: Path, domain: str, data: Path | None, run: str) -> None:
    """Make ``folder`` a run repository with one commit. Raises ConfigError where one is there."""
    from dvc.repo import Repo
    from git import Actor
    from git import Repo as GitRepo

    find_domain(domain)
    check_run(run)
    if (folder / "params.yaml").exists():
        raise ConfigError(f"{folder}: is a run repository already; `cd {folder} && dvc repro`")
    if data is not None and not data.is_dir():
        raise DataError(f"{data}: no such folder; --data names a folder of the domain's real files")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder}: not empty; name a new or empty folder")
    repo = GitRepo.init(
        folder,
        initial_branch="main",
        template="",
        allow_unsafe_options=True,  # no template at all
    )
    Repo.init(str(folder)).close()
    with Repo(str(folder)).config.edit() as config:
        config["core"]["analytics"] = False
        config["cache"]["type"] = ["reflink", "hardlink", "copy"]
    for source, target in _FILES.items():
        (folder / target).write_text(template(source), "utf-8")
    (folder / "params.yaml").write_text(_params(domain, data, run), "utf-8")
    repo.index.add(
        ["params.yaml", "dvc.yaml", ".gitignore", ".dvc/config", ".dvc/.gitignore", ".dvcignore"]
    )
    author = Actor("CoEvo", "coevo@localhost")
    repo.index.commit("Start a run repository", author=author, committer=author, skip_hooks=True)
    repo.close()
    Archive.open(folder, run).configure()


def template(name: str) -> str:
    """A file that a run repository starts with."""
    return resources.files("engine").joinpath("templates", name).read_text("utf-8")


def _params(domain: str, data: Path | None, run: str) -> str:
    """The template's text with three values set, its comments kept."""
    values = {"run": run, "domain": domain, "data": str(data.resolve()) if data else None}
    lines = []
    for line in template("params.yaml").splitlines():
        key = line.split(":", 1)[0]
        if key in values:
            comment = "  # " + line.split("#", 1)[1].strip() if "#" in line else ""
            line = yaml.safe_dump({key: values[key]}, width=10_000).strip() + comment
        lines.append(line)
    return "\n".join(lines) + "\n"
