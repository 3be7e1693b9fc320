"""The engine around ``vllm serve``: its command lines, its swaps, and what it survives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import vllm_cases
import vllm_runs
from runs import RunRepository
from serving_protocol import TEXT, ask, digest
from serving_protocol import speakers as speakers

from engine.context import Context, open_context
from engine.errors import ConfigError, ModelError
from engine.measurement import evaluate
from engine.observer import Silent
from engine.params import ServingParams, load
from engine.records import Outcome
from engine.serving import server
from engine.serving.base import Server
from kernel.contract import ModelUnavailable

GOLDEN = Path(__file__).parent / "golden" / "vllm_commands.txt"


def test_command_lines_are_what_they_were(tmp_path: Path) -> None:
    """`make test-vllm` has vLLM's own parser accept them."""
    told = []
    for case, (model, params) in vllm_cases.CASES.items():
        folder = vllm_cases.write_model(tmp_path / model, model)
        line = shlex.join(vllm_cases.line(folder, params))
        told.append(f"# {case}\n{line.replace(f'{tmp_path}/', '')}\n")
    assert "\n".join(told) == GOLDEN.read_text("utf-8")


def test_what_can_be_known_before_the_start_is_said_then(tmp_path: Path) -> None:
    def made(**options: object) -> Server:
        return server(ServingParams(backend="vllm", options=options), tmp_path)

    with pytest.raises(ConfigError, match=r"unknown key 'tensor'; known: .*tensor_parallel"):
        made(tensor=2)
    with pytest.raises(ConfigError, match=r"data_parallel: expected int, got 'two'"):
        made(data_parallel="two")
    with pytest.raises(ModelError, match="nope: not installed"):
        asyncio.run(made(program="nope").start())
    folder = vllm_cases.write_model(tmp_path / "nameless", "nameless")
    with pytest.raises(ModelError, match=r"a nameless model; .*serving\.options\.tool_parser"):
        made().model(folder, "0" * 64)


def scene(
    folder: Path, play: Callable[[Server, Path], Awaitable[None]], **params: object
) -> list[str]:
    """Play with a fake vLLM; the checkpoints it loaded, one after the other."""
    options = {**vllm_runs.fake(folder), **params}
    made, diary = server(vllm_runs.params(options), folder), folder / "diary"

    async def whole() -> None:
        await made.start()
        try:
            await play(made, diary)
        finally:
            await made.stop()

    asyncio.run(whole())
    return vllm_runs.lines(diary / "loads")


def test_a_swap_is_one_load_however_requests_are_mixed(
    speakers: dict[str, Path], tmp_path: Path
) -> None:
    async def play(made: Server, _: Path) -> None:
        both = [made.model(speakers[name], digest(name)) for name in ("text", "call")]
        replies = await asyncio.gather(*(ask(model) for model in both * 6))
        assert {reply.content or reply.tool_calls[0].name for reply in replies} == {
            TEXT,
            "final_answer",
        }

    loads = scene(tmp_path, play)
    assert loads == [f"coevo-{digest(name)[:12]}" for name in ("text", "call")]
    assert len(vllm_runs.lines(tmp_path / "diary" / "asked")) == 12


def test_a_stranger_on_its_port_is_never_asked(speakers: dict[str, Path], tmp_path: Path) -> None:
    from engine.serving.process import free_port

    port = free_port()

    async def play(one: Server, _: Path) -> None:
        await ask(one.model(speakers["text"], digest("text")))
        options = {**vllm_runs.fake(tmp_path / "other"), "port": port}
        other = server(vllm_runs.params(options), tmp_path / "other")
        await other.start()
        with pytest.raises(ModelUnavailable, match="another server holds that port"):
            await ask(other.model(speakers["call"], digest("call")))
        await other.stop()

    scene(tmp_path, play, port=port)
    assert len(vllm_runs.lines(tmp_path / "diary" / "asked")) == 1


def test_one_that_never_starts_says_so_at_once(speakers: dict[str, Path], tmp_path: Path) -> None:
    async def play(made: Server, diary: Path) -> None:
        for number in range(9):
            (diary / f"die-{number}").touch()
        with pytest.raises(ModelUnavailable, match=r"code 3: ValueError.*start.*vllm\.log"):
            await ask(made.model(speakers["text"], digest("text")))
        assert len(list(diary.glob("die-*"))) == 8

    assert scene(tmp_path, play) == []


def test_one_that_dies_over_and_over_is_given_up(speakers: dict[str, Path], tmp_path: Path) -> None:
    """The third death in a row, starts included; one death alone costs nothing, and is told."""
    told: list[str] = []

    async def play(made: Server, diary: Path) -> None:
        await made.start(told.append)
        model = made.model(speakers["text"], digest("text"))
        for deaths in (0, 1):
            for number in range(deaths):
                (diary / f"die-{number}").touch()
            await ask(model)
            kill(diary)
        for number in range(9):
            (diary / f"die-{number}").touch()
        with pytest.raises(ModelUnavailable, match=r"died 3 times in a row.*code 3: Value"):
            await ask(model)
        assert len(list(diary.glob("die-*"))) == 7

    assert len(scene(tmp_path, play)) == 2
    assert sum(text.startswith("vllm died and is started again") for text in told) == 5


def kill(diary: Path) -> None:
    os.kill(int((diary / "pid").read_text()), signal.SIGKILL)


KILLS, EXECUTIONS = 10, 15


def test_a_server_killed_ten_times_costs_no_rollout(opened: RunRepository, tmp_path: Path) -> None:
    """Every rollout is finished, counted once, and comes out as on a server that lives."""
    run = opened.copied(tmp_path / "base")
    diary = tmp_path / "diary"
    quiet = measured(run, vllm_runs.params(vllm_runs.fake(tmp_path), concurrency=6))
    assert len(vllm_runs.lines(diary / "loads")) == 1
    slow = vllm_runs.params(vllm_runs.fake(tmp_path, 0.1), concurrency=6, context=4000)
    assert measured(run, slow, diary) == quiet
    assert len(vllm_runs.lines(diary / "loads")) == 1 + 1 + KILLS
    asked = vllm_runs.lines(diary / "asked")
    in_flight = 6
    assert len(asked) <= 2 * turns(quiet) + KILLS * in_flight, "what was answered was kept"


def measured(run: RunRepository, serving: ServingParams, killed: Path | None = None) -> Outcome:
    params = load(run.folder / "params.yaml")
    params = params.model_copy(update={"serving": serving, "executions": EXECUTIONS})
    context = open_context(run.folder, params, Silent())
    before = len(context.journal)
    outcome, spent = asyncio.run(evaluated(context, killed))
    assert spent == outcome.tasks * EXECUTIONS == len(context.journal) - before
    context.journal.close()
    return replace(outcome, eval_key="", setting={}, cost=replace(outcome.cost, seconds=0.0))


def turns(outcome: Outcome) -> int:
    """Completions of 3 tokens each, as the fake counts them."""
    return outcome.cost.completion_tokens // 3


async def evaluated(context: Context, killed: Path | None) -> tuple[Outcome, int]:
    pair = context.archive.pair(context.archive.round("r000").incumbent)
    async with context.scheduler() as scheduler:
        reaper = asyncio.create_task(reap(killed)) if killed else None
        [(outcome, rollouts)] = await evaluate(
            context, scheduler, [(pair.harness, pair.checkpoint)], "validation", "killed"
        )
        if reaper is not None:
            await asyncio.wait_for(reaper, 1)
        assert len(rollouts) == scheduler.cost.rollouts
        return outcome, scheduler.cost.rollouts


async def reap(diary: Path) -> None:
    """Kill each process once it has been asked a few times, ten times in all."""
    asked, loads = diary / "asked", diary / "loads"
    done = len(vllm_runs.lines(loads))
    for number in range(1, KILLS + 1):
        while len(vllm_runs.lines(loads)) < done + number:
            await asyncio.sleep(0.01)
        seen = len(vllm_runs.lines(asked))
        while len(vllm_runs.lines(asked)) < seen + 8:
            await asyncio.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            kill(diary)
