"""The command line: its help, its docs, its exit codes and its JSON are one thing."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from runs import BIN, RunRepository, environment

from engine import errors
from engine.cli import cli

ROOT = Path(__file__).parents[1]
DOCS = (ROOT / "docs" / "CLI.md").read_text("utf-8")


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its whole name."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


ALL = dict(commands(cli))


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help_with_an_example(name: str) -> None:
    command = ALL[name]
    context = click.Context(command, info_name=f"coevo {name}", max_content_width=100)
    shown = command.get_help(context)
    assert command.help and command.help.split("\n")[0].strip()
    assert re.search(rf"^ +(cd .* && )?coevo {name}( |$)", shown, re.MULTILINE), shown


@pytest.mark.parametrize("name", ALL)
def test_every_option_says_what_it_is(name: str) -> None:
    for parameter in ALL[name].params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


def test_the_docs_list_exactly_the_commands() -> None:
    listed = re.findall(r"^\| `coevo ([a-z]+)", DOCS, re.MULTILINE)
    assert sorted(listed) == sorted(cli.commands)


def test_the_docs_list_exactly_the_exit_codes() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", DOCS, re.MULTILINE)}
    own = [
        e for e in vars(errors).values() if isinstance(e, type) and e.__module__ == "engine.errors"
    ]
    assert listed == {0, 130} | {error.exit_code for error in own}


def examples(program: str) -> list[str]:
    """The command lines of ``program`` in the code blocks of README and docs."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = [b for p in pages for b in re.findall(r"```.*?\n(.*?)```", p.read_text("utf-8"), re.S)]
    begin = rf"^(?:\$ )?(?:[A-Z_]+=\S+ )*({program} .*)$"
    return [line for block in blocks for line in re.findall(begin, block, re.MULTILINE)]


@pytest.mark.parametrize("line", examples("coevo"))
def test_an_example_of_the_docs_is_a_command_that_exists(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "&"]
    command: click.Command = cli
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    command.make_context(str(command.name), words)


@pytest.mark.parametrize("line", examples("dvc remote"))
def test_an_example_of_the_docs_is_one_for_dvc(line: str) -> None:
    from dvc.cli import parse_args

    assert parse_args(shlex.split(line, comments=True)[1:]).func


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("log", "-n", "5"),
        ("pairs",),
        ("show", "evo/harness/r001-k1"),
        ("show", "r001-sft"),
        ("show", "evo/pair/r001-adapted"),
        ("show", "evo/evolution"),
    ],
    ids=" ".join,
)
def test_facts_come_as_json(one_round: RunRepository, command: tuple[str, ...]) -> None:
    done = one_round.run("coevo", *command, "--json")
    assert done.returncode == 0 and done.stderr == ""
    assert json.loads(done.stdout)
    assert one_round.ok("coevo", *command)


def test_replay_and_test_as_json(one_round: RunRepository, tmp_path: Path) -> None:
    run = one_round.copied(tmp_path / "base")
    pairs = [
        p for p in json.loads(run.ok("coevo", "pairs", "--json")) if p["harness_name"] == "r001-k1"
    ]
    replayed = json.loads(run.ok("coevo", "replay", "r001-k1", "--json"))
    assert [each["pair"] for each in replayed] == [pair["pair"] for pair in pairs]
    assert all(each["equal"] and each["changed"] == [] for each in replayed)
    tested = json.loads(run.ok("coevo", "test", "evo/evolution", "--json"))
    assert tested["outcome"]["tasks"] == 10


@pytest.mark.parametrize(
    ("name", "near"),
    [("r001-k9", "r001-k"), ("evo/harness/r001-seed", "r000-seed"), ("r001-sfd", "r001-sft")],
)
def test_an_unknown_commit_gets_a_suggestion(
    one_round: RunRepository, name: str, near: str
) -> None:
    said = one_round.fails("coevo", "show", name, code=4)
    assert name in said and "did you mean" in said and near in said


def test_a_commit_of_the_wrong_kind_is_said_to_be_one(one_round: RunRepository) -> None:
    assert "a checkpoint has no harness" in one_round.fails(
        "coevo", "diff", "r001-sft", "evo/harness/r000-seed", code=4
    )
    assert "no measured pair" in one_round.fails("coevo", "replay", "r001-sft", code=4)


def test_an_unknown_command_option_or_stage_is_a_usage_error(one_round: RunRepository) -> None:
    for words in (("statsu",), ("status", "--jsno"), ("stage", "obsrve"), ("show",)):
        done = one_round.run("coevo", *words)
        assert done.returncode == 2 and "Error: " in done.stderr
        assert "Traceback" not in done.stderr


def test_outside_a_run_repository(one_round: RunRepository, tmp_path: Path) -> None:
    assert "coevo init" in one_round.fails("coevo", "status", code=2, cwd=tmp_path)
    found = one_round.run("coevo", "doctor", "--json", cwd=tmp_path)
    assert found.returncode == 1
    [own] = [row for row in json.loads(found.stdout) if row["name"] == "run repository"]
    assert not own["ok"] and "coevo init" in own["mend"]


def test_the_doctor_in_a_run_repository(one_round: RunRepository) -> None:
    found = one_round.run("coevo", "doctor", "--json")
    rows = {row["name"]: row for row in json.loads(found.stdout)}
    assert found.returncode == 0
    assert rows["archive"]["found"].startswith("round 1")
    assert all(row["ok"] or row["mend"] or not row["needed"] for row in rows.values())
    assert not rows["DVC remote"]["ok"] and "dvc remote add" in rows["DVC remote"]["found"]


def test_before_the_first_round(fresh: RunRepository) -> None:
    for words in (("status",), ("log",), ("pairs",), ("push",)):
        assert "dvc repro" in fresh.fails("coevo", *words, code=4)
    assert "no round" in fresh.ok("coevo", "doctor")


def test_init_refuses_what_it_would_spoil(one_round: RunRepository, tmp_path: Path) -> None:
    run = one_round
    assert "run repository already" in run.fails("coevo", "init", ".", code=2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    assert "not empty" in run.fails("coevo", "init", str(tmp_path / "full"), code=2)
    new = str(tmp_path / "new")
    assert "did you mean 'smart_home'" in run.fails(
        "coevo", "init", new, "--domain", "smarthome", code=2
    )
    assert "no such folder" in run.fails("coevo", "init", new, "--data", "/nowhere", code=3)
    assert "run name" in run.fails("coevo", "init", new, "--run", "a b", code=4)
    assert not Path(new).exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(tmp_path: Path, shell: str) -> None:
    env = environment(tmp_path) | {"_COEVO_COMPLETE": f"{shell}_source"}
    done = subprocess.run(
        [BIN / "coevo"], env=env, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    if shell == "bash" and "not supported" in done.stderr:
        pytest.skip("this bash is too old")
    assert done.returncode == 0 and "_COEVO_COMPLETE" in done.stdout
    env |= {"COMP_WORDS": "coevo st", "COMP_CWORD": "1", "_COEVO_COMPLETE": "bash_complete"}
    done = subprocess.run([BIN / "coevo"], env=env, capture_output=True, text=True, check=False)
    assert [line.split(",")[-1] for line in done.stdout.splitlines()] == ["stage", "status"]


def test_a_name_that_no_file_can_have_is_said_to_be_one(one_round: RunRepository) -> None:
    for name in ("x" * 5000, "/dev/null"):
        said = one_round.fails("coevo", "trajectories", name, code=1)
        assert "give another" in said and len(said) < 600


INTERRUPTED = """
import importlib.abc, signal, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "engine.cli.history":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
from engine.start import main
main()
"""


def test_interrupted_while_it_loads_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted before anything began\n")
