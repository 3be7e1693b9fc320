"""Presets: what `coevo init` starts params.yaml with."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from engine.cli import cli
from engine.domains.registry import DOMAINS
from engine.errors import ConfigError
from engine.params import Params, load
from engine.presets import NAMES, PAPER, merged, preset


def started(folder: Path, *options: str) -> Params:
    done = CliRunner().invoke(cli, ["init", str(folder), *options])
    assert done.exit_code == 0, done.output
    return load(folder / "params.yaml")


KNOWN = [(n, d) for n in NAMES for d in DOMAINS if n != "paper" or d in PAPER]


@pytest.mark.parametrize(("name", "domain"), KNOWN)
def test_every_preset_of_every_domain_is_read_back_as_meant(
    name: str, domain: str, tmp_path: Path
) -> None:
    started(tmp_path / "run", "--domain", domain, "--preset", name)
    written = yaml.safe_load((tmp_path / "run" / "params.yaml").read_text("utf-8"))
    template = yaml.safe_load(Path("engine/templates/params.yaml").read_text("utf-8"))
    assert written == merged(template, {**preset(name, domain), "domain": domain})


def test_the_paper_s_figures(tmp_path: Path) -> None:
    """Appendix A: common setup, tables 4 to 7."""
    params = started(tmp_path / "run", "--domain", "rbac_sql", "--preset", "paper")
    assert (params.rounds, params.offspring) == (10, 8)
    assert params.splits.model_dump() == {"train": 8000, "validation": 2000, "test": 6926}
    drawn = (params.sampling.temperature, params.sampling.top_p, params.sampling.top_k)
    assert drawn == (1.0, 0.95, 20)
    assert (params.sampling.max_tokens, params.serving.context) == (4096, 32768)
    adaptation = params.adaptation
    assert (adaptation.samples, adaptation.batch_size, adaptation.learning_rate) == (3, 8, 5e-6)
    assert (adaptation.max_length, adaptation.sampling) == (8192, params.sampling)
    for domain, sizes in {
        "attribution": (3400, 200, 58 + 126),
        "smart_home": (10000, 2000, 342),
    }.items():
        assert tuple(preset("paper", domain)["splits"].values()) == sizes


def test_comments_of_the_template_stay(tmp_path: Path) -> None:
    started(tmp_path / "run", "--preset", "paper")
    text = (tmp_path / "run" / "params.yaml").read_text("utf-8")
    assert "offspring: 8  # K editors a round\n" in text
    assert "curator: {kind: llm}\n" in text


def test_a_domain_from_outside_starts_small_and_has_no_paper() -> None:
    assert preset("small", "mine:DOMAIN") == {}
    with pytest.raises(ConfigError, match="its domains: attribution, rbac_sql, smart_home"):
        preset("paper", "mine:DOMAIN")
    with pytest.raises(ConfigError, match="known: small, paper"):
        preset("large", "smart_home")
