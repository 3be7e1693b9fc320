"""Stages that ask a language model, killed half-way: what was paid for isn't asked again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llm_cases import CANARY, HELLO, MODEL, endpoint, meter
from llm_roles import ask, play
from runs import RunRepository, wait_for

from engine.llm.answered import Answered, answers_path
from engine.llm.chat import LLM, Reply
from engine.llm.ledger import entries, ledger_path
from engine.llm.scripted import Answer, Request, ScriptedEndpoint, Silence
from engine.serving.client import Retry


class Halting:
    """The roles' script, which leaves its request number ``at`` without an answer."""

    def __init__(self) -> None:
        self.at, self.halted = -1, threading.Event()

    def __call__(self, request: Request) -> Answer | Silence:
        if request.number == self.at:
            self.halted.set()
            return Silence()
        return play(request)


def killed(run: RunRepository, script: Halting, at: int, *command: str) -> None:
    """``command`` is killed while the model owes it the answer to its request number ``at``."""
    script.at = at
    script.halted.clear()
    process = run.started(*command)
    wait_for(script.halted.is_set)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    script.at = -1


def record(run: RunRepository, name: str) -> Any:
    return json.loads((run.folder / "round" / f"{name}.json").read_text())


def test_killed_stages_ask_only_what_is_still_owed(
    one_round: RunRepository, tmp_path: Path
) -> None:
    run, whole = (one_round.copied(tmp_path / name) for name in ("killed", "whole"))
    script = Halting()
    with ScriptedEndpoint(play, models=["scripted"]) as other:
        ask(whole, other)
        whole.ok("dvc", "repro")
        expected = len(other.requests)
    with ScriptedEndpoint(script, models=["scripted"]) as server:
        ask(run, server)
        run.ok("coevo", "stage", "open")
        run.ok("coevo", "stage", "observe")
        killed(run, script, 3, "coevo", "stage", "curate")
        run.ok("coevo", "stage", "curate")
        assert len(server.requests) == 5 + 1
        run.ok("coevo", "stage", "edit")
        for at in (7, 9):
            killed(run, script, at, "coevo", "stage", "inherit")
        run.ok("dvc", "repro")
        assert len(server.requests) == expected + 3, "one more for each answer that never came"
    counted = entries(ledger_path(run.folder, "evo"))
    assert len(counted) == expected + 3
    assert sum(each.usage.unanswered for each in counted) == 3
    assert run.round() == whole.round() == 2
    for name in ("evidence", "candidates"):
        mine, theirs = record(run, name), record(whole, name)
        for each in (mine, theirs):
            each.pop("cost", None)
        assert without_hashes(mine) == without_hashes(theirs)


def without_hashes(found: Any) -> Any:
    """Without what hangs on times and machines."""
    if isinstance(found, dict):
        dropped = ("cost", "pair", "selected", "harness", "checkpoint", "alpha", "note")
        return {k: without_hashes(v) for k, v in found.items() if k not in dropped}
    if isinstance(found, list):
        return [without_hashes(each) for each in found]
    return found


def test_the_answers_are_a_transcript_without_the_key(tmp_path: Path) -> None:
    replies, sent = asked(tmp_path, HELLO, Answer(f"echo {CANARY}", [("read", {"id": 1})]))
    assert sent == 1 and replies[0].text == "echo [key]"
    path = answers_path(tmp_path, "evo", 3, "curator")
    [line] = [json.loads(each) for each in path.read_text().splitlines()]
    assert line["asked"] == HELLO and line["reply"]["text"] == "echo [key]"
    assert CANARY not in path.read_text()


@pytest.mark.parametrize(
    "changes",
    [{"api": "responses"}, {"reasoning_effort": "high"}, {"model": "another"}],
)
def test_another_request_is_asked_anew(tmp_path: Path, changes: dict[str, Any]) -> None:
    asked(tmp_path, HELLO, Answer("one"))
    again, sent = asked(tmp_path, HELLO, Answer("two"))
    assert (again[0].text, sent) == ("one", 0)
    assert again[0].usage.calls == 0
    said, sent = asked(tmp_path, HELLO, Answer("three"), **changes)
    assert (said[0].text, sent) == ("three", 1)
    said, sent = asked(tmp_path, [*HELLO, *HELLO], Answer("four"))
    assert (said[0].text, sent) == ("four", 1)


def test_a_request_made_twice_has_two_answers_and_a_torn_line_none(tmp_path: Path) -> None:
    steps = (Answer("one"), Answer("two"))
    asked(tmp_path, HELLO, *steps, times=2)
    again, sent = asked(tmp_path, HELLO, Answer("three"), times=3)
    assert ([each.text for each in again], sent) == (["one", "two", "three"], 1)
    path = answers_path(tmp_path, "evo", 3, "curator")
    path.write_bytes(path.read_bytes()[:-20])
    again, sent = asked(tmp_path, HELLO, Answer("four"), times=3)
    assert ([each.text for each in again], sent) == (["one", "two", "four"], 1)
    again, sent = asked(tmp_path, HELLO, Answer("five"), times=3)
    assert ([each.text for each in again], sent) == (["one", "two", "four"], 0)


def asked(
    folder: Path, messages: Any, *steps: Answer, times: int = 1, **changes: Any
) -> tuple[list[Reply], int]:
    """What a new process's Curator is told when it asks ``times``, and how many calls that took."""
    name = changes.get("model", MODEL)
    counted = meter(folder)
    answered = Answered(answers_path(folder, "evo", 3, "curator"))

    async def all_of(llm: LLM) -> list[Reply]:
        return [await llm.ask("curator", messages, session="k1") for _ in range(times)]

    with ScriptedEndpoint(
        lambda request: steps[min(request.number, len(steps) - 1)], key=CANARY, models=[name]
    ) as server:
        where = replace(endpoint(server.url), **changes)
        llm = LLM(where, counted, Retry(attempts=1), answered)
        replies = asyncio.run(all_of(llm))
        counted.close()
        answered.close()
        return replies, len(server.requests)
