"""The real vLLM, its CPU build, in an environment of its own: `make test-vllm`."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
import vllm_runs
from serving_protocol import CONTEXT, DRAWN, TEXT, ServingProtocol, ask, digest
from serving_protocol import speakers as speakers

from engine.serving import server
from engine.serving.base import Server

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif("COEVO_VLLM" not in os.environ, reason="`make test-vllm` runs these"),
]


LONG = 350
"""Words of a prompt."""


class TestRealVllm(ServingProtocol):
    def server(self, folder: Path) -> Server:
        return server(vllm_runs.params(vllm_runs.real(), context=CONTEXT, concurrency=4), folder)


def test_its_own_parser_accepts_every_golden_command_line() -> None:
    golden = vllm_runs.ROOT / "tests" / "golden" / "vllm_commands.txt"
    done = subprocess.run(
        [vllm_runs.ENVIRONMENT / "bin" / "python", "tests/vllm_accepts.py", golden],
        cwd=vllm_runs.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in golden.read_text().splitlines() if line.startswith("vllm serve ")]
    assert done.stdout.splitlines()[-1:] == [f"accepted: {len(lines)}"], done.stderr


def test_killed_it_comes_back(speakers: dict[str, Path], tmp_path: Path) -> None:
    """Its engine process too: none is left of the one before."""
    import psutil

    made = server(vllm_runs.params(vllm_runs.real(), context=CONTEXT, concurrency=4), tmp_path)

    def own() -> list[psutil.Process]:
        return psutil.Process().children(recursive=True)

    async def scene() -> None:
        await made.start()
        try:
            model = made.model(speakers["text"], digest("text"))
            assert (await ask(model)).content == TEXT
            before = own()
            api = next(
                p
                for p in before
                if "serve" in p.cmdline() and "guard.py" not in " ".join(p.cmdline())
            )
            api.kill()
            assert (await ask(model)).content == TEXT
            alive = [p for p in before if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
            assert alive == []
        finally:
            await made.stop()
        assert own() == []

    asyncio.run(scene())


def test_many_long_prompts_with_seeds_at_once(speakers: dict[str, Path], tmp_path: Path) -> None:
    """More tokens than a step takes: an engine that split a prompt would die of its seed."""
    options = vllm_runs.real()
    options = {**options, "args": [*options["args"], "--max-num-batched-tokens", str(CONTEXT)]}
    told: list[str] = []
    made = server(vllm_runs.params(options, context=CONTEXT, concurrency=12), tmp_path)

    async def scene() -> None:
        await made.start(told.append)
        try:
            model = made.model(speakers["text"], digest("text"))
            texts = [{"role": "user", "content": f"{n} " + "light " * LONG} for n in range(12)]
            done = await asyncio.gather(
                *(model.complete([text], [], DRAWN, seed) for seed, text in enumerate(texts))
            )
            assert all(reply.content == TEXT for reply in done)
            assert all(CONTEXT / 2 < reply.prompt_tokens < CONTEXT for reply in done)
        finally:
            await made.stop()

    asyncio.run(scene())
    assert not [text for text in told if "died" in text]
