"""`coevo costs`: what the ledger holds, by round and role."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from llm_cases import MODEL, PRICES

from engine.cli import cli
from engine.errors import BudgetSpent
from engine.llm.ledger import ledger_path
from engine.llm.meter import Meter, open_meter
from engine.params import parse


def here(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str = "") -> Path:
    (folder / "params.yaml").write_text(text)
    (folder / "dvc.yaml").write_text("")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    monkeypatch.chdir(folder)
    return folder


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["costs", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_costs_are_summed_by_round_and_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = here(tmp_path, monkeypatch)
    for round_number, role, calls in ((1, "editors", 2), (1, "curator", 1), (2, "editors", 1)):
        account = Meter(ledger_path(root, "evo"), round_number, PRICES, clock=lambda: 0.0).account(
            role
        )
        for _ in range(calls):
            account.charge(account.admit(MODEL), 1000, 400, 50)
    last = Meter(ledger_path(root, "evo"), 2, {}, clock=lambda: 0.0).account("editors")
    last.charge(last.admit("free"), 10, 0, 1, guessed=True)
    last.admit("free")

    facts = json.loads(shown("--json"))
    rows = [
        (r["round"], r["role"], r["calls"], r["prompt_tokens"], r["usd"]) for r in facts["rows"]
    ]
    assert rows == [
        (1, "curator", 1, 1000, 0.0018),
        (1, "editors", 2, 2000, 0.0036),
        (2, "editors", 3, 1010, 0.0018),
    ]
    assert facts["total"]["usd"] == 0.0072
    assert facts["total"]["cached_tokens"] == 1600
    lines = shown().splitlines()
    assert lines[2].split() == ["1", "editors", "2", "2,000", "800", "100", "0.0", "0.0036"]
    assert lines[4].split()[:3] == ["all", "6", "4,010"]
    assert [line.split()[0] for line in lines[5:]] == ["1", "1", "1"]


def test_nothing_asked_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here(tmp_path, monkeypatch)
    assert "run evo has asked no language model yet" in shown()
    assert json.loads(shown("--json", "--run", "other"))["rows"] == []


def test_a_rounds_meter_has_the_parameters_prices_and_caps(tmp_path: Path) -> None:
    text = """
run: one
llm: {prices: {m: {input: 2, cached_input: 0.5, output: 8}}, caps: {calls: 5}}
editors: {caps: {calls: 1}}
"""
    meter = open_meter(tmp_path, parse(text, "params.yaml"), 4)
    editors = meter.account("editors", "k1")
    assert editors.charge(editors.admit("m"), 1000, 400, 50).usd == pytest.approx(0.0018)
    with pytest.raises(BudgetSpent, match=r"the role's budget .*editors\.caps\.calls"):
        editors.admit("m")
    assert ledger_path(tmp_path, "one").is_file()
