"""Does a harness module keep its contract? Looked at from inside the worker, after import."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

RUN_PARAMETERS = 3


def problems(harness: ModuleType, entry_points: Mapping[str, Sequence[str]]) -> list[str]:
    """What is missing or shaped differently; empty when all is well.

    ``entry_points`` maps ``build_agent`` or ``Agent.step`` to its parameter names, without self.
    """
    found = _syntax(Path(getattr(harness, "__file__", ".")).parent)
    run = getattr(harness, "run", None)
    if not inspect.iscoroutinefunction(run):
        found.append("harness.py has no `async def run(instruction, model, world)`")
    elif len(inspect.signature(run).parameters) != RUN_PARAMETERS:
        found.append("run must take exactly instruction, model, world")
    for name, parameters in entry_points.items():
        problem = _entry_problem(harness, name, list(parameters))
        found += [problem] if problem else []
    return found


def _syntax(folder: Path) -> list[str]:
    """Modules that only some episodes import must compile too."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        try:
            compile(path.read_bytes(), str(name), "exec")
        except (SyntaxError, ValueError) as error:
            found.append(f"{name} does not compile: {error}")
    return found


def _entry_problem(harness: ModuleType, name: str, parameters: list[str]) -> str:
    target: object = harness
    for part in name.split("."):
        target = getattr(target, part, None)
    if not callable(target):
        return f"harness.py does not define {name}({', '.join(parameters)})"
    names = [parameter for parameter in inspect.signature(target).parameters if parameter != "self"]
    if names != parameters:
        return f"{name} takes ({', '.join(names)}), the contract says ({', '.join(parameters)})"
    return ""
