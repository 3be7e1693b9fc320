"""What a person reads after a round, whatever text harnesses and editors left."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cli.summary import render

MARKUP = "Close [/x], open [bold] and [link=a]"


def facts(text: str) -> dict[str, Any]:
    pair = {"pair": "a" * 40, "name": "r000-seed", "score": 0.5, "timr": None, "tasks": 4}
    offspring = {
        "slot": "k1",
        "base_name": "r000-seed",
        "subject": text,
        "adopts": [["b" * 40, text]],
        "status": "rejected",
        "reasons": [text],
    }
    return {
        "run": "evo",
        "round": 1,
        "iteration": None,
        "commit": "c" * 40,
        "incumbent_before": pair,
        "incumbent": pair,
        "offspring": [offspring],
        "candidates": [],
        "adapted": {"note": text},
        "promoted": False,
        "why": text,
        "costs": {},
    }


@pytest.mark.parametrize("text", [MARKUP, "[/]", "plain"])
def test_text_that_looks_like_markup_is_shown_as_it_is(text: str) -> None:
    shown = render(facts(text))
    assert f"why       {text}\n" in shown and f"adapted   {text}\n" in shown
    assert shown.count(text.split()[0]) >= 5, "subject, adopted design and reason, too"
