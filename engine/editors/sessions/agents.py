"""How each kind of agent is started: Codex, any command by a template, our own chat agent."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.editors.sessions import places
from engine.editors.sessions.room import interpreter
from engine.editors.sessions.session import Launch
from engine.errors import ConfigError
from engine.params import Params

_SYSTEM = Path("/usr")
_PROGRAM = re.compile(
    r"""(?:^|[;&|(\n]|\bexec\b)\s*             # where a command may begin
    (?:\w+=(?:"[^"]*"|'[^']*'|\S*)\s+)*       # its own variables
    ([\w./+@-]+)""",
    re.VERBOSE,
)
_FIELDS = ("prompt_file", "workdir", "archive", "base_url", "model", "port", "home")


def codex(params: Params) -> Launch:
    """Codex CLI, non-interactive. Its own sandbox is off: it reads the whole disk and can't nest
    in ours, which shows it nothing but the session. Raises ConfigError without ``codex``."""
    found = shutil.which("codex")
    if found is None:
        raise ConfigError(
            "editors.kind: codex: there is no `codex` on PATH; "
            "`npm install -g @openai/codex` brings it, or use editors.kind: chat"
        )
    provider = (
        f'{{name="coevo",base_url={json.dumps(places.BASE_URL)},wire_api="responses",'
        'env_key="OPENAI_API_KEY"}'
    )
    settings = [
        'model_provider="coevo"',
        f"model_providers.coevo={provider}",
        f"model_context_window={params.llm.context}",
        "analytics.enabled=false",
        "check_for_update_on_startup=false",
    ]
    if params.llm.reasoning_effort:
        settings.append(f"model_reasoning_effort={json.dumps(params.llm.reasoning_effort)}")
    command = ["codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check"]
    command += ["--dangerously-bypass-approvals-and-sandbox", "--cd", places.CANDIDATE]
    command += ["--model", _model(params), *(w for s in settings for w in ("-c", s)), "-"]
    programs, mounts = _programs(["codex", "node"])
    environment = {"CODEX_HOME": f"{places.HOME}/.codex"}
    command = ["sh", "-c", 'mkdir -p "$CODEX_HOME" && exec "$@"', "sh", *command]
    return Launch("codex", tuple(command), places.PROMPT, environment, mounts, programs)


def command(params: Params) -> Launch:
    """A command of the user's. A list is run as it is, a string by ``sh -c``; both with
    ``{prompt_file}`` and the other fields filled in. Raises ConfigError."""
    template = params.editors.command
    if not template:
        raise ConfigError(
            "editors.kind: command: editors.command is not set; give a command with {prompt_file}, "
            f"such as [my-agent, --task, '{{prompt_file}}']; fields: {', '.join(_FIELDS)}"
        )
    if isinstance(template, str):
        filled = ["sh", "-c", _filled(template, params)]
        names = list(dict.fromkeys(_PROGRAM.findall(template)))
    else:
        filled = [_filled(word, params) for word in template]
        names = filled
        if shutil.which(filled[0]) is None:
            raise ConfigError(f"editors.command: there is no {filled[0]!r} on PATH; install it")
    programs, mounts = _programs(names)
    name = next(iter(programs), Path(next(iter(names), "sh")).name)
    return Launch(f"command:{name}", tuple(filled), places.PROMPT, {}, mounts, programs)


def chat(params: Params) -> Launch:
    """Our own agent: file tools and a shell over Chat Completions."""
    words = [str(interpreter()), "-s", "-P", "-B", f"{places.LIBRARY}/chat_agent.py"]
    words += [places.BASE_URL, _model(params), str(params.llm.context)]
    return Launch("chat", tuple(words), places.PROMPT)


def environment(model: str, token: str) -> dict[str, str]:
    """What agents look for to find their model; the token opens this session's door alone."""
    return {
        "OPENAI_API_KEY": token,
        "OPENAI_BASE_URL": places.BASE_URL,
        "OPENAI_API_BASE": places.BASE_URL,
        "OPENAI_MODEL": model,
    }


def _model(params: Params) -> str:
    chosen = params.editors.model or params.llm.model
    if not chosen:
        raise ConfigError("editors: no model is named; set llm.model or editors.model")
    return chosen


def _filled(word: str, params: Params) -> str:
    """The fields of a template put in; other braces stay as they are."""
    values = {
        "prompt_file": places.PROMPT,
        "workdir": places.CANDIDATE,
        "archive": places.ARCHIVE,
        "base_url": places.BASE_URL,
        "model": params.editors.model or params.llm.model or "",
        "port": str(places.PORT),
        "home": places.HOME,
    }
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    unknown = re.findall(r"(?<!\$)\{([a-z_]+)\}", word)
    if unknown:
        raise ConfigError(
            f"editors.command: unknown field {{{unknown[0]}}}; known: {', '.join(_FIELDS)}"
        )
    return word


def _programs(names: Sequence[str]) -> tuple[dict[str, Path], tuple[Path, ...]]:
    """The programs among ``names`` that the system's folders don't hold, by name, and what has to
    be mounted for them; files given by an absolute path are mounted too."""
    programs: dict[str, Path] = {}
    mounts: list[Path] = []
    for name in names:
        found = shutil.which(name)
        path = Path(found or name)
        if found is None and not (path.is_absolute() and path.is_file()):
            continue
        target = path.resolve()
        if target.is_relative_to(_SYSTEM):
            continue
        if found is not None and "/" not in name:
            programs[name] = target
        mounts += _home_of(path if path.is_absolute() and "/" in name else target)
    return programs, tuple(dict.fromkeys(mounts))


def _home_of(path: Path) -> Iterator[Path]:
    """What a program needs beside itself: its node_modules, its virtual environment with the
    Python that this was made from, or nothing."""
    for parent in reversed(path.parents):
        if parent.name == "node_modules":
            yield parent
            return
    for parent in path.parents:
        made = parent / "pyvenv.cfg"
        if parent == Path(sys.prefix).resolve():
            raise ConfigError(
                f"editors.command: {path} is installed beside the engine, which no session may "
                "see; install the agent in a virtual environment of its own"
            )
        if made.is_file():
            yield parent
            found = re.search(r"^home\s*=\s*(.+)$", made.read_text("utf-8"), re.MULTILINE)
            base = Path(found[1].strip()).resolve().parent if found else _SYSTEM
            if not base.is_relative_to(_SYSTEM):
                yield base
            return
    yield path
