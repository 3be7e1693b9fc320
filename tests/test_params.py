"""params.yaml: defaults, typos, bad values, each named."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.params import Params, find_root, load, parse


def test_an_empty_file_is_the_default() -> None:
    assert parse("", "params.yaml") == Params()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ofspring: 3", "unknown key 'ofspring'; did you mean 'offspring'?"),
        ("promotion: {margn: 1}", "unknown key 'promotion.margn'; did you mean 'margin'?"),
        ("rounds: none", "rounds: Input should be a valid integer"),
        ("rounds: 0", "rounds: Input should be greater than or equal to 1 (got 0)"),
        ("limits: {turns: 0}", "limits.turns: Input should be greater than or equal to 1 (got 0)"),
        ("mode: coevolve", "mode: Input should be 'coevo'"),
        ("run: a/b", "run: String should match pattern"),
        ("[1, 2]", "expected a mapping of parameters, got list"),
        ("a: [", "not YAML"),
        ("rounds: 3\nseed: 1\nrounds: 5", "line 3: 'rounds' stands in line 1, too"),
        ("limits: {turns: 3, turns: 5}", "line 1: 'turns' stands in line 1, too"),
        ("limits:\n  turns: 3\n  turns: 5", "line 3: 'turns' stands in line 2, too"),
        ("[" * 5000, "can't be read (maximum recursion depth"),
        ("seed: 2020-13-45", "can't be read (month must be in 1..12); quote"),
        ('data: "home\\0bench"', "data: a null character can be in no name"),
        ("seed: !!timestamp soon", "can't be read"),
        ("seed: !!bool perhaps", "can't be read"),
        ("limits: {wall_s: .inf}", "limits.wall_s: Input should be a finite number (got inf)"),
        ("evolution: {session: {turns: -1}}", "evolution.session.turns: Input should be greater"),
        ("editors: {line_budget: -1}", "editors.line_budget: Input should be greater"),
        ("inheritance: {preliminary: 99}\nsplits: {validation: 10}", "preliminary is larger than"),
        ("serving: {backend: external}", "serving.base_url is needed"),
        ("serving: {base_url: 'http://me:k3y@host/v1'}", "serving.base_url holds a user or key"),
        ("serving: {base_url: 'http://k3y@host/v1'}", "serving.api_key_env"),
    ],
)
def test_a_mistake_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "params.yaml")
    assert str(error.value).startswith("params.yaml: ")
    assert said in str(error.value)


def test_a_key_in_the_base_url_is_not_shown() -> None:
    with pytest.raises(ConfigError) as error:
        parse("serving: {base_url: 'http://me:k3y@host/v1'}", "params.yaml")
    assert "k3y" not in str(error.value)
    assert parse("serving: {base_url: 'http://host/v1?at=@'}", "params.yaml").serving.base_url


def test_a_missing_file_and_a_missing_repository_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"params\.yaml: not there"):
        load(tmp_path / "params.yaml")
    with pytest.raises(ConfigError, match="no run repository here"):
        find_root(tmp_path)


def test_the_repository_is_found_from_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("")
    (tmp_path / "dvc.yaml").write_text("")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_root(below) == tmp_path.resolve()


def test_the_project_is_itself_a_run_repository() -> None:
    """The clone's own files are the ones that `coevo init` writes."""
    root, templates = Path(__file__).parents[1], Path(__file__).parents[1] / "engine" / "templates"
    for name in ("params.yaml", "dvc.yaml"):
        assert (root / name).read_text() == (templates / name).read_text()
    load(root / "params.yaml")
