"""How agents are started, and other real ones than Codex by the templates of docs/EDITORS.md."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from runs import TESTS, RunRepository, environment
from session_runs import edit, needs_sandbox, offspring, replan, sessions, stages

from engine.editors.sessions import agents
from engine.errors import ConfigError
from engine.llm.scripted import Answer, Request, ScriptedEndpoint
from engine.params import Params

DOCS = Path(__file__).parents[1] / "docs" / "EDITORS.md"
MODEL = "scripted"
SUBMIT = {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
AGENTS = {
    "qwen": ("run_shell_command", {"is_background": False}, Answer("Done.")),
    "opencode": ("bash", {"description": "do it"}, Answer("Done.")),
    "mini": ("bash", {}, Answer("Done.", [("bash", SUBMIT)])),
}
"""Program: its shell tool, what that wants beside ``command``, and how the model ends."""


def template(program: str) -> str:
    """The command that the docs give for a program."""
    found = re.search(rf"<!-- {program} -->\n```yaml\n(.*?)\n```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    params = Params.model_validate(yaml.safe_load(found[1]))
    assert isinstance(params.editors.command, str)
    return params.editors.command


@pytest.mark.parametrize("program", AGENTS)
def test_an_agent_works_by_the_template_in_the_docs(program: str, tmp_path: Path) -> None:
    needs_sandbox()
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program} on PATH; docs/EDITORS.md says how to install it")
    tool, more, last = AGENTS[program]
    plan = tmp_path / "run-plan.json"
    act = {"command": f"python3 {TESTS / 'session_agent.py'} {plan}", **more}

    def script(request: Request) -> Answer:
        if not request.body.get("tools"):
            return Answer("A title.")
        return last if request.results else Answer("I begin.", [(tool, act)])

    with ScriptedEndpoint(script, models=[MODEL]) as server:
        run = RunRepository(
            tmp_path / "run",
            offspring=1,
            llm={"base_url": server.url, "model": MODEL},
            editors={
                "kind": "command",
                "command": template(program),
                "mounts": [str(TESTS / "session_agent.py"), str(plan)],
                "wall_s": 200.0,
            },
        )
        replan(run, {"k1": ["good"]})
        stages(run, "open", "observe", "curate")
        done = edit(run, PATH=f"{Path(found).parent}:{environment(run.home)['PATH']}")
    assert done.returncode == 0, done.stderr
    made = offspring(run)["k1"]
    log = (sessions(run) / "k1" / "log.txt").read_text(errors="replace")
    assert made["status"] == "valid", log
    assert made["editor"] == f"command:{program}"
    assert len(server.requests) >= 2


def params(**editors: object) -> Params:
    return Params.model_validate({"editors": editors, "llm": {"model": "m"}})


def test_every_template_in_the_docs_is_a_whole_one() -> None:
    for program in re.findall(r"<!-- (\w+) -->\n```yaml", DOCS.read_text()):
        launch = agents.command(params(command=template(program)))
        assert launch.command[:2] == ("sh", "-c")
        assert not re.search(r"(?<!\$)\{[a-z_]+\}", launch.command[2])


def test_fields_are_filled_in_and_other_braces_stay() -> None:
    text = """agent --to {base_url} -m {model} '{"a": {"b": 1}}' "${HOME}" {prompt_file} {port}"""
    launch = agents.command(params(command=text))
    assert launch.command[2] == (
        """agent --to http://127.0.0.1:8377/v1 -m m '{"a": {"b": 1}}' "${HOME}" """
        "/coevo/session/prompt.md 8377"
    )
    assert launch.stdin == "/coevo/session/prompt.md"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (None, "editors.command is not set"),
        ([], "editors.command is not set"),
        (["no-such-agent-at-all"], "no 'no-such-agent-at-all' on PATH"),
        ("agent {prompt}", "unknown field {prompt}; known: prompt_file"),
    ],
)
def test_a_command_that_can_not_work_is_refused(command: object, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        agents.command(params(command=command))


def test_the_engines_own_environment_is_never_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", environment(Path("/nowhere"))["PATH"])
    with pytest.raises(ConfigError, match="beside the engine"):
        agents.command(params(command="X='a b' coevo {prompt_file}"))
    launch = agents.command(params(command="echo coevo coevo/{model}"))
    assert launch.mounts == (), "what is no command is no program"


def test_a_program_is_mounted_with_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    script = program(tmp_path / "npm" / "lib" / "node_modules" / "@x" / "agent" / "cli.js")
    links = tmp_path / "bin"
    links.mkdir()
    (links / "node-agent").symlink_to(script)
    program(tmp_path / "env" / "bin" / "venv-agent")
    base = program(tmp_path / "python" / "bin" / "python3")
    (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (links / "venv-agent").symlink_to(tmp_path / "env" / "bin" / "venv-agent")
    lone = program(links / "lone-agent")
    monkeypatch.setenv("PATH", f"{links}:{os.environ['PATH']}")

    def mounted(command: str) -> tuple[Path, ...]:
        return agents.command(params(command=[command])).mounts

    assert mounted("node-agent") == (tmp_path / "npm" / "lib" / "node_modules",)
    assert mounted("venv-agent") == (tmp_path / "env", tmp_path / "python")
    assert mounted("lone-agent") == (lone,)
    assert mounted("sh") == ()
    launch = agents.command(params(command="X=1 node-agent {prompt_file}"))
    assert launch.programs == {"node-agent": script}
    assert launch.label == "command:node-agent"
