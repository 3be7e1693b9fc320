"""A fresh run repository: git, DVC, the pipeline and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from engine.archive import Archive
from engine.archive.refs import check_run
from engine.domains.registry import domain as find_domain
from engine.errors import ConfigError, DataError
from engine.presets import merged, preset

_FILES = {"dvc.yaml": "dvc.yaml", "gitignore": ".gitignore"}


def init_repository(
    folder: Path, domain: str, data: Path | None, run: str, preset_name: str = "small"
) -> None:
    """Make ``folder`` a run repository with one commit and the params of a preset. Raises
    ConfigError where one is there."""
    from dvc.repo import Repo
    from git import Actor
    from git import Repo as GitRepo

    find_domain(domain)
    check_run(run)
    if (folder / "params.yaml").exists():
        raise ConfigError(f"{folder}: is a run repository already; `cd {folder} && dvc repro`")
    if data is not None and not data.is_dir():
        raise DataError(f"{data}: no such folder; --data names a folder of the domain's real files")
    params = preset_text(preset_name, domain, data, run)
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
    (folder / "params.yaml").write_text(params, "utf-8")
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


def preset_text(chosen: str, domain: str, data: Path | None = None, run: str = "evo") -> str:
    """params.yaml of the preset ``chosen``: the template's text with its values set, comments
    kept. Raises ConfigError where there is no such preset for ``domain``."""
    own = {"run": run, "domain": domain, "data": str(data.resolve()) if data else None}
    values = {**preset(chosen, domain), **own}
    text = template("params.yaml")
    defaults = yaml.safe_load(text)
    lines: list[str] = []
    changed = False  # the section that this line stands in is written anew
    for line in text.splitlines():
        key = line.split(":", 1)[0]
        if not line.startswith((" ", "#")):
            changed = key in values
            if changed:
                line = _section(key, merged({key: defaults[key]}, {key: values[key]}), line)
        if not (changed and line.startswith(" ")):
            lines.append(line)
    missing = [key for key in values if key not in defaults]
    lines += [_section(key, {key: values[key]}, "") for key in missing]
    return "\n".join(lines) + "\n"


def _section(key: str, values: Mapping[str, Any], line: str) -> str:
    """One top-level key in a line, with the comment that ``line`` ends with."""
    comment = "  # " + line.split("#", 1)[1].strip() if "#" in line else ""
    value = values[key]
    if not isinstance(value, Mapping):
        return yaml.safe_dump({key: value}, width=10_000).strip() + comment
    flow = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return f"{key}: {flow.strip()}{comment}"
