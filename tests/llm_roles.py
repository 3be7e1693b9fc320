"""The Curator and inheritance as a model by script plays them, each wrong once."""

from __future__ import annotations

import re
from typing import Any

from runs import RunRepository

from engine.llm.scripted import Answer, Request, ScriptedEndpoint

MODEL = "scripted"
IDEAS = (
    ("verify_commands", "Check each device against the inventory before the answer is given."),
    ("choose_examples", "Worked examples nearest to the request show which method fits it."),
    ("retry_malformed", "Ask once more where no tool call could be parsed from the reply."),
)


def play(request: Request) -> Answer:
    """Both roles, each wrong once."""
    tools = [t.get("function", t)["name"] for t in request.body["tools"]]
    said = request.results
    if "index" in tools:
        return Answer(calls=[("stop", {"why": "seen"}) if said else ("index", {})])
    if "classify" in tools:
        return Answer(calls=[("classify", {"classes": taxonomy(request, "not taken" in said[-1])})])
    if "write" in tools:
        return Answer(
            calls=[("write", {"evidence": "Checking devices gained.", "briefs": briefs()})]
        )
    return inherit(request, said)


def taxonomy(request: Request, right: bool) -> list[dict[str, Any]]:
    """The failed tasks that the prompt lists, dealt to three classes."""
    lists = re.findall(r"^- .*: \d+: ((?:[0-9a-f]{12} ?)+)$", request.prompt, re.MULTILINE)
    ids = [id for each in lists for id in each.split()]
    kinds = ("harness-addressable", "model-limited", "external")
    return [
        {"name": kind, "kind": kind, "count": len(ids[n::3]) + (not right), "ids": ids[n::3]}
        for n, kind in enumerate(kinds[: len(ids)])
    ]


def briefs() -> list[dict[str, Any]]:
    return [{"kind": "vary", "hypothesis": said, "mechanisms": [name]} for name, said in IDEAS]


def inherit(request: Request, said: tuple[str, ...]) -> Answer:
    listed = request.prompt.partition("Checkpoints:")[2].partition("Past pairs")[0]
    first, second = re.findall(r"^- (\S+) [0-9a-f]{12};", listed, re.MULTILINE)[:2]
    if not said:
        return Answer(calls=[("propose", {"alpha": {first: 0.9}, "why": "too little"})])
    if len(said) == 1:
        return Answer(calls=[("propose", {"alpha": {first: 1.0}, "why": "the incumbent's"})])
    alpha = {first: 0.75, second: 0.25}
    return Answer(calls=[("propose", {"alpha": alpha, "why": "some of both", "lambda": 1.25})])


def ask(run: RunRepository, endpoint: ScriptedEndpoint, **llm: Any) -> None:
    prices = {MODEL: {"input": 1.0, "output": 2.0}}
    run.set_params(
        llm={"base_url": endpoint.url, "model": MODEL, "prices": prices, **llm},
        curator={"kind": "llm", "retrieval_budget": 4},
        inheritance={
            "kind": "llm",
            "merger": "scripted:merge",
            "proposals": 2,
            "preliminary": 4,
            "shortlist": 3,
            "merges": 1,
        },
    )
