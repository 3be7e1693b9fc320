"""What the attention of the embedded server is worth: requests a second against the library's own.

    python benchmarks/serving.py CHECKPOINT [--requests 24] [--parallel 12]

Prompts of about 880 tokens share their first 250; 50 new tokens each, greedy. The baseline is
``transformers serve`` as it comes, at its best number of requests in flight (four).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from engine.params import ServingParams
from engine.serving.embedded import EmbeddedServer
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


async def rate(kind: type[EmbeddedServer], checkpoint: Path, requests: int, parallel: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        server = kind(ServingParams(options={"parallel": parallel}), Path(folder))
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
    options = parser.parse_args()
    plain = asyncio.run(rate(Plain, options.checkpoint, options.requests, 4))
    print(f"transformers serve, 4 in flight: {plain:.2f} requests/s")
    ours = asyncio.run(rate(EmbeddedServer, options.checkpoint, options.requests, options.parallel))
    print(f"ours, {options.parallel} in flight: {ours:.2f} requests/s, ratio {ours / plain:.2f}")


if __name__ == "__main__":
    main()
