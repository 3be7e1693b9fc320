"""The rules that the source keeps: which way imports run, who may read what, what is lazy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [*ROOT.glob("engine/**/*.py"), *ROOT.glob("kernel/**/*.py")]

HEAVY = {"torch", "transformers", "mergekit", "dvc", "openai", "vllm", "ray", "swift", "git"}
"""Imported at call time, in the file that wraps each."""

LIGHT_KERNEL = {"jsonschema", "kernel"} | set(sys.stdlib_module_names)

LEVEL = {"start": 6, "cli": 5, "round": 4, "stages": 3}
"""Who stands above whom in the engine; everything else is a seam or a record below them."""


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, *, top: bool = False) -> Iterator[str]:
    """Dotted names that a file imports; with ``top`` only those at import time."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if top and (lazy or typing_only):
            skipped.update(ast.walk(node))
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def level(name: str) -> int:
    return LEVEL.get(name.split(".")[1] if "." in name else "", 0)


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_run_one_way(path: Path) -> None:
    own = module(path)
    for name in imports(path):
        if own.startswith("kernel"):
            root = name.split(".")[0]
            assert root in LIGHT_KERNEL, f"the kernel stays light: {name}"
            assert root != "engine"
        elif name.startswith("engine.") and level(name) > level(own):
            pytest.fail(f"{own} imports {name}, which stands above it")


@pytest.mark.parametrize("path", sorted((ROOT / "engine/stages").glob("*.py")), ids=module)
def test_stages_never_import_each_other(path: Path) -> None:
    for name in imports(path):
        assert not name.startswith("engine.stages."), name


@pytest.mark.parametrize("path", FILES, ids=module)
def test_heavy_libraries_load_when_used(path: Path) -> None:
    allowed = {"git"} if module(path).startswith("engine.archive") else set()
    for name in imports(path, top=True):
        assert name.split(".")[0] not in HEAVY - allowed, name


@pytest.mark.parametrize("path", FILES, ids=module)
def test_only_params_reads_the_environment(path: Path) -> None:
    if module(path) == "engine.params" or module(path).startswith("kernel."):
        return
    text = path.read_text("utf-8")
    assert "os.environ" not in text and "os.getenv" not in text


@pytest.mark.parametrize("path", FILES, ids=module)
def test_only_testing_asks_for_the_test_split(path: Path) -> None:
    if module(path) in {"engine.testing"}:
        return
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".tasks", ".split")):
            assert not any(getattr(arg, "value", None) == "test" for arg in node.args)
        if isinstance(node, ast.keyword):
            assert node.arg != "readable", "only testing opens a split"


def reachable(start: str) -> set[str]:
    """A module and all of the engine's that it imports, at import time, later or by name (the
    tables of seams)."""
    paths = {module(path): path for path in FILES}
    found: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in paths and name not in found:
            found.add(name)
            todo += imports(paths[name])
            todo += re.findall(r'"(engine\.[\w.]+):\w+"', paths[name].read_text("utf-8"))
    return found


def test_no_round_reaches_what_reads_the_test_split() -> None:
    round_ = reachable("engine.round")
    assert {"engine.stages.adapt", "engine.context", "engine.curator.embedded"} <= round_
    assert not round_ & {"engine.testing", "engine.data_check"}


@pytest.mark.parametrize("path", FILES, ids=module)
def test_frozen_splits_are_opened_in_two_places(path: Path) -> None:
    """By the context, which asks who may, and by the data check, which no round reaches."""
    if module(path) in {"engine.splits", "engine.context", "engine.data_check"}:
        return
    names = set(imports(path))
    assert not names & {"engine.splits.load", "engine.splits.split_path"}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in ("load", "split_path"):
            assert ast.unparse(node.value) != "splits", "only through Context.split"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_files_have_one_subject(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400


def test_the_command_line_starts_light() -> None:
    """`coevo --help` loads no heavy library."""
    code = f"import sys, engine.cli; print(sorted(set(sys.modules) & set({sorted(HEAVY)})))"
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() in ("[]", "['git']")
