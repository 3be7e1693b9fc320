"""The cheap gates that an offspring passes before any rollout is spent on it.

A reason begins with the gate's name (``path``, ``syntax``, ``imports``, ``files``, ``budget``,
``empty``, ``leak``, ``duplicate``, ``contract``, ``smoke``), so that a repair knows what to mend.
"""

from __future__ import annotations

import ast
import codecs
import io
import json
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from engine.domains import Domain, Task
from engine.leaks import Forbidden, leaks, parsed
from kernel import workspace
from kernel.budget import added_lines, refusals
from kernel.host import WorkerPool
from kernel.smoke import smoke

_DEPENDENCY_FILES = frozenset(
    ["requirements.txt", "pyproject.toml", "setup.py", "setup.cfg", "package.json", "Pipfile"]
)
_TEXT = frozenset([".py", ".json", ".md", ".txt", ".yaml", ".yml", ".toml", ".jsonl", ".csv"])
_MAX_BYTES = 512 * 2**10  # of one file
_MAX_BYTES_IN_ALL = 2 * 2**20


@dataclass(frozen=True)
class CheckResult:
    """``reasons`` is empty for an offspring that may be measured; ``added`` counts lines as git
    does, 0 where they can't be counted."""

    reasons: tuple[str, ...]
    added: int = 0

    @property
    def ok(self) -> bool:
        return not self.reasons

    @property
    def line(self) -> str:
        """For the archive: ``passed``, or the reasons on one line."""
        return "passed" if self.ok else "; ".join(self.reasons)


async def check(
    files: Mapping[str, bytes],
    base: Mapping[str, bytes],
    *,
    domain: Domain,
    practice: Task,
    forbidden: Forbidden,
    line_budget: int | None,
    duplicate_of: str | None,
    pool: WorkerPool,
) -> CheckResult:
    """All gates; the sandboxed ones run only when the static ones pass.

    ``practice`` is a task without a reference answer (``Domain.practice``) whose world the smoke
    episodes run in; ``duplicate_of`` is the archived harness of the same code, if there is one.
    Raises what the pool raises when no sandbox works.
    """
    reasons = list(static(files, base, forbidden))
    added = 0
    if not reasons:
        added = added_lines(base, files)
        if line_budget is not None and added > line_budget:
            reasons.append(f"budget: {added} added lines, {line_budget} are allowed")
        if duplicate_of is not None:
            reasons.append(f"duplicate: of {duplicate_of}")
    if not reasons:
        reasons += await _episodes(files, base, domain, practice, pool)
    return CheckResult(tuple(reasons), added)


def static(
    files: Mapping[str, bytes], base: Mapping[str, bytes], forbidden: Forbidden
) -> Iterator[str]:
    """The gates that only read."""
    try:
        code, before = workspace.code(files), workspace.code(base)
    except ValueError as error:
        yield f"path: {error}"
        return
    if "harness.py" not in code:
        yield "files: harness.py is missing"
    if code == before:
        yield "empty: nothing changed but notes"
    oversized = [f"files: {problem}" for problem in _oversized(files, base)]
    if oversized:  # nothing below need read them
        yield from oversized
        return
    yield from (f"files: {problem}" for problem in refusals(base, files))
    yield from (f"files: {problem}" for problem in _encodings(files, base))
    yield from (f"files: {problem}" for problem in _unwelcome(code, before))
    yield from (f"syntax: {problem}" for problem in _syntax(code))
    yield from (f"imports: {problem}" for problem in _imports(code, before))
    yield from (f"leak: {problem}" for problem in leaks(files, base, forbidden))


def _oversized(files: Mapping[str, bytes], base: Mapping[str, bytes]) -> Iterator[str]:
    """New and changed files, notes too, that are too large alone or together."""
    sizes = {n: len(content) for n, content in files.items() if base.get(n) != content}
    for name, size in sizes.items():
        if size > _MAX_BYTES:
            yield f"{name} is larger than {_MAX_BYTES} bytes"
    if sum(sizes.values()) > _MAX_BYTES_IN_ALL:
        yield f"new and changed files are larger than {_MAX_BYTES_IN_ALL} bytes in all"


def _encodings(files: Mapping[str, bytes], base: Mapping[str, bytes]) -> Iterator[str]:
    """New and changed files that Python or a reader would decode otherwise than these checks do,
    so that text could hide in them."""
    for name, content in files.items():
        if base.get(name) == content:
            continue
        if name in workspace.NOTES:
            try:
                content.decode("utf-8")
            except UnicodeDecodeError:
                yield f"{name} is not UTF-8 text"
        elif name.endswith(".py") and (declared := _declared(content)) != "utf-8":
            yield f"{name} declares the encoding {declared}; write it in UTF-8"


def _declared(content: bytes) -> str:
    """The encoding that Python reads a source file in; ``utf-8`` for what can't be read at all,
    which is no valid source either."""
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # as the compiler has them
    try:
        found = tokenize.detect_encoding(io.BytesIO(lines).readline)[0]
    except SyntaxError:
        return "utf-8"
    return codecs.lookup(found).name.removesuffix("-sig")


def _unwelcome(code: Mapping[str, bytes], before: Mapping[str, bytes]) -> Iterator[str]:
    for name in sorted(code.keys() - before.keys()):
        path = PurePosixPath(name)
        if path.name in _DEPENDENCY_FILES:
            yield f"{name} adds a dependency"
        elif path.suffix not in _TEXT:
            yield f"{name} is no kind of file that a harness needs"


def _syntax(code: Mapping[str, bytes]) -> Iterator[str]:
    for name, content in code.items():
        try:
            if name.endswith(".py"):
                compile(content, name, "exec", dont_inherit=True)
            elif name.endswith(".json"):
                json.loads(content)
        except SyntaxError as error:
            yield f"{name}:{error.lineno}: {error.msg}"
        except ValueError as error:
            yield f"{name}: {error}"
        except (RecursionError, MemoryError):  # what the parsers raise at depth
            yield f"{name}: nested too deep"


def _imports(code: Mapping[str, bytes], before: Mapping[str, bytes]) -> Iterator[str]:
    """Modules new to the base that are neither Python's, the kernel's nor the workspace's own."""
    own = {PurePosixPath(name).parts[0].removesuffix(".py") for name in code}
    allowed = own | set(sys.stdlib_module_names) | {"kernel"}
    had = {root for content in before.values() for root in _roots(content)}
    for name, content in code.items():
        if name.endswith(".py"):
            for root in sorted(_roots(content) - allowed - had):
                yield f"{name} imports {root}, which is no part of Python, kernel or workspace"


def _roots(content: bytes) -> set[str]:
    found = set()
    for node in ast.walk(parsed(content)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


async def _episodes(
    files: Mapping[str, bytes],
    base: Mapping[str, bytes],
    domain: Domain,
    practice: Task,
    pool: WorkerPool,
) -> list[str]:
    points = kept_entry_points(domain, base)
    world = domain.world(practice)
    problems = await smoke(
        pool,
        files,
        rules=world.rules,
        public=world.public,
        world=lambda: domain.world(practice),
        entry_points=points,
        instruction=practice.instruction,
    )
    return [f"smoke: {problem}" for problem in problems]


def kept_entry_points(domain: Domain, base: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    """The domain's public contract as far as the base has it."""
    defined = _defined(base.get("harness.py", b""))
    return {name: args for name, args in domain.entry_points.items() if name in defined}


def _defined(content: bytes) -> set[str]:
    """Functions, classes and ``Class.method`` names at the top of a file, imported ones too."""
    names = set()
    for node in parsed(content).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
            methods = (each for each in node.body if hasattr(each, "name"))
            names |= {f"{node.name}.{each.name}" for each in methods}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names
