"""What the package says of itself: what it needs, what it offers, what a run repository ignores."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

from test_layering import FILES, imports

from engine.cli import cli
from engine.repository import template

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    return {plain(re.split(r"[^\w.-]", each)[0]) for each in requirements}


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


def test_whatever_is_imported_is_declared() -> None:
    extras = ("embedded", "parquet", "harbor", "ray")
    declared = names([*PROJECT["dependencies"], *(r for name in extras for r in EXTRAS[name])])
    own = {"engine", "kernel", "mechanisms"} | set(sys.stdlib_module_names)
    own |= {"swift"}  # in an environment of its own (docs/TRAINING.md)
    providers = packages_distributions()
    for path in FILES:
        for root in {name.partition(".")[0] for name in imports(path)} - own:
            distributions = {plain(each) for each in providers.get(root, [root])}
            assert distributions & declared, f"{path.name} imports {root}"


def test_an_extra_or_command_that_a_text_names_exists() -> None:
    text = "\n".join(
        path.read_text("utf-8")
        for path in [*FILES, *ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "pyproject.toml"]
    )
    assert set(re.findall(r"coevo\[([\w,]+)\]", text)) <= set(EXTRAS)
    commands = set(re.findall(r"`coevo ([a-z][a-z-]*)", text))
    assert commands and commands <= set(cli.commands), commands - set(cli.commands)


def test_a_run_repository_ignores_what_the_project_does_for_a_run_but_not_the_lock(
    tmp_path: Path,
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(template("gitignore"), "utf-8")
    ignored = [".coevo/x", "round/x", "checkpoints/x", "metrics.json", "plots.json", ".venv/x"]
    ignored.append("mine/__pycache__/x.pyc")
    kept = ["dvc.lock", "dvc.yaml", "params.yaml", "data/round/x", "data/metrics.json"]
    for folder in (tmp_path, ROOT):
        done = subprocess.run(
            ["git", "check-ignore", "--no-index", *ignored, *kept],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == ignored


def test_a_wheel_brings_every_domain_s_seed_harness(tmp_path: Path) -> None:
    """An installed package finds what this clone does, without the clone."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "checkpoints", "build")
    shutil.copytree(ROOT, source, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(source)], check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        inside = set(packed.namelist())
    shipped = {
        str(p.relative_to(ROOT)) for p in (ROOT / "seed_harnesses").rglob("*") if p.is_file()
    }
    wanted = {name for name in shipped if "__pycache__" not in name}
    assert wanted <= inside, wanted - inside
    assert {"engine/templates/dvc.yaml", "engine/serving/calls.jinja"} <= inside
