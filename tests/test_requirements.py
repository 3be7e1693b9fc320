"""What a run needs of a machine: the arithmetic, and what is missing."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli import cli
from engine.errors import ConfigError
from engine.params import parse
from engine.presets import preset
from engine.repository import preset_text
from engine.requirements import Finding, parameters, required
from engine.round import check_names


def found(text: str, place: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in required(parse(text, "test"), place)}


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("Qwen/Qwen3.5-9B", 9e9),
        ("smollm2-135m", 135e6),
        ("org/a-0.8b-instruct", 0.8e9),
        ("mine", 0),
    ],
)
def test_a_model_s_size_is_read_from_its_name(model: str, count: float) -> None:
    assert parameters(model)[0] == count


def test_or_from_its_files(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(2000))
    assert parameters(str(tmp_path)) == (1000, "its files, in bf16")


def test_the_paper_s_needs_with_their_arithmetic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9 B parameters: 16 bytes each over four GPUs; 91 checkpoints of 18 GB, a state of 126 GB."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    needs = found(preset_text("paper", "attribution"), tmp_path)
    missing = {name for name, finding in needs.items() if finding.needed and not finding.ok}
    assert missing >= {"vllm", "swift", "GPUs", "training memory", "endpoint", "codex"}
    assert needs["GPUs"].found == "0 here, 4 needed"
    memory = needs["training memory"].found
    assert "16 bytes × 9.0 B parameters (its name) / 4 devices = 36 GB each" in memory
    disk = needs["disk for all rounds"].found
    assert "91 checkpoints (1 seed + 10 rounds × (8 offspring × 1 merges + 1 trained))" in disk
    assert "× 18.0 GB" in disk and "126 GB training state = 1764 GB at most" in disk
    assert "llm.base_url is not set" in needs["endpoint"].found


def test_the_small_preset_needs_no_more_than_disk(tmp_path: Path) -> None:
    assert set(found(preset_text("small", "smart_home"), tmp_path)) == {"disk for all rounds"}
    assert preset("small", "smart_home") == {}


def test_batches_that_devices_cannot_share_are_found(tmp_path: Path) -> None:
    text = "adaptation: {trainer: swift, batch_size: 6, options: {devices: 4, cpu: true}}"
    needs = found(text, tmp_path)
    assert "6 sequences can't be shared out to 4" in needs["swift"].found
    assert needs["GPUs"].ok and needs["training memory"].ok


def test_the_doctor_plans_with_a_file_or_a_preset(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(preset_text("paper", "rbac_sql"))
    for options in (["--params", str(file)], ["--preset", "paper", "--domain", "rbac_sql"]):
        done = CliRunner().invoke(cli, ["doctor", "--json", *options])
        assert done.exit_code == 1
        names = {finding["name"] for finding in json.loads(done.output)}
        assert {"vllm", "swift", "GPUs", "disk for all rounds", "endpoint"} <= names
        assert "run repository" not in names


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("editors: {kind: cdoex}", "cdoex"),
        ("editors: {kind: codex}", "codex: there is no `codex` on PATH"),
        ("editors: {kind: command, command: [no-such-agent]}", "there is no 'no-such-agent'"),
        ("editors: {kind: command}", "editors.command is not set"),
        ("editors: {kind: chat, model: m}", "editors: llm.base_url is not set"),
        ("curator: {kind: llm, model: m}", "curator: llm.base_url is not set"),
        ("mode: model-only\neditors: {kind: codex}", ""),
        ("mode: harness-only\ninheritance: {kind: llm}", ""),
        ("editors: {kind: command, command: [ls]}", ""),
    ],
)
def test_what_models_and_agents_lack_is_found_before_a_round(
    text: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the doctor and by the first stage alike; what the mode doesn't use isn't asked for."""
    if "[ls]" not in text:
        monkeypatch.setenv("PATH", str(tmp_path))
    bad = [finding.found for finding in found(text, tmp_path).values() if not finding.ok]
    assert any(missing in each for each in bad) if missing else not bad
    with pytest.raises(ConfigError, match=re.escape(missing)) if missing else nullcontext():
        check_names(parse(text, "test"))
