"""What the attention of the embedded server is worth: requests a second against the library's own.

    python benchmarks/serving.py CHECKPOINT [--requests 24] [--parallel 12] [--vllm PROGRAM]

Prompts of about 880 tokens share their first 250; 50 new tokens each, greedy. The baseline is
``transformers serve`` as it comes, at its best number of requests in flight (four). With ``--vllm``
(``.venv-vllm/bin/vllm``, which ``make test-vllm`` installs) vLLM's CPU build answers them too.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.params import ServingParams
from engine.serving.base import Server
from engine.serving.embedded import EmbeddedServer
from engine.serving.vllm import VllmServer
from kernel.contract import Sampling

WORDS = Path(__file__).parents[1].joinpath("docs", "ARCHITECTURE.md").read_text("utf-8").split()


class Plain(EmbeddedServer):
    """The same server without our attention."""

    def _command(self, port: int) -> list[str]:
        return [
            "transformers.cli.transformers" if part == "engine.serving.segments" else part
            for part in super()._command(port)
        ]


def prompts(count: int) -> list[str]:
    draw, shared = random.Random(1), " ".join(WORDS[:200])
    return [f"{shared} {' '.join(draw.choices(WORDS, k=300))}" for _ in range(count)]


Kind = Callable[[ServingParams, Path], Server]


async def rate(
    kind: Kind, options: dict[str, Any], checkpoint: Path, requests: int, parallel: int
) -> float:
    with tempfile.TemporaryDirectory() as folder:
        server = kind(ServingParams(options=options, concurrency=parallel), Path(folder))
        await server.start()
        try:
            model, sampling = server.model(checkpoint, ""), Sampling(max_tokens=50)

            async def ask(text: str) -> None:
                await model.complete([{"role": "user", "content": text}], [], sampling, 0)

            await ask("warm up")
            start = time.monotonic()
            await asyncio.gather(*(ask(text) for text in prompts(requests)))
            return requests / (time.monotonic() - start)
        finally:
            await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--parallel", type=int, default=12)
    parser.add_argument("--vllm", metavar="PROGRAM")
    options = parser.parse_args()

    def measured(kind: Kind, settings: dict[str, Any], parallel: int) -> float:
        return asyncio.run(rate(kind, settings, options.checkpoint, options.requests, parallel))

    plain = measured(Plain, {"parallel": 4}, 4)
    print(f"transformers serve, 4 in flight: {plain:.2f} requests/s")
    many = options.parallel
    ours = measured(EmbeddedServer, {"parallel": many}, many)
    print(f"ours, {many} in flight: {ours:.2f} requests/s, ratio {ours / plain:.2f}")
    if options.vllm:
        settings = {"program": options.vllm, "env": {"VLLM_CPU_KVCACHE_SPACE": "1"}}
        vllm = measured(VllmServer, settings, many)
        print(f"vLLM, {many} in flight: {vllm:.2f} requests/s, ratio to ours {vllm / ours:.2f}")


if __name__ == "__main__":
    main()
