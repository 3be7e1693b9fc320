"""What the kernel adds to an endpoint's own latency, in wall time and in CPU.

    python benchmarks/overhead.py [--rollouts 400] [--turns 4] [--concurrency 32] [--latency 0.5]

An OpenAI-compatible endpoint of fixed latency runs in a process of its own. The same requests go
to it three times: from the bare ``openai`` client, from the engine's client around it, and from
rollouts of the general seed harness through the kernel (sandboxed) and that client. Printed: the
kernel run's wall time over the ideal (rollouts x turns x latency / concurrency), and CPU per
rollout: the clients' own (the first two runs) and the kernel's (what the third adds to this
process, and every process of the sandbox).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from engine.serving.client import Endpoint, OpenAIModel
from kernel import usage, workspace
from kernel.contract import (
    ChatModel,
    Completion,
    Limits,
    Message,
    RawToolCall,
    Sampling,
    ToolSchema,
)
from kernel.host import WorkerPool
from kernel.scripted import BASH, ScriptedWorld

ROOT = Path(__file__).resolve().parent.parent
TARGET_RATIO, TARGET_CPU_MS = 1.15, 10.0


# --- the endpoint -----------------------------------------------------------------------------


def reply(messages: list[Message], turns: int) -> dict[str, Any]:
    """A shell call on every turn but the last of an episode."""
    done = sum(message["role"] == "assistant" for message in messages)
    message: dict[str, Any] = {"role": "assistant", "content": "done"}
    if done < turns - 1:
        function = {"name": "bash", "arguments": '{"command": "ls -l"}'}
        call = {"id": f"call_{done}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage_ = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": "fixed"}
    return {**head, "choices": [choice], "usage": usage_}


async def serve(latency_s: float, turns: int) -> None:
    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                request = json.loads(await reader.readexactly(length))
                await asyncio.sleep(latency_s)
                body = json.dumps(reply(request["messages"], turns)).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
                    + str(len(body)).encode()
                    + b"\r\n\r\n"
                    + body
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- the two runs -----------------------------------------------------------------------------


class Bare:
    """The thinnest use of the openai client as a ChatModel."""

    def __init__(self, url: str) -> None:
        from openai import AsyncOpenAI

        self._client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        sampling: Sampling,
        seed: int,
    ) -> Completion:
        answer: Any = await self._client.chat.completions.create(
            model="fixed",
            messages=messages,  # type: ignore[arg-type]
            tools=tools,  # type: ignore[arg-type]
            temperature=sampling.temperature,
            seed=seed,
        )
        message = answer.choices[0].message
        calls = tuple(
            RawToolCall(call.id, call.function.name, call.function.arguments)
            for call in message.tool_calls or ()
        )
        return Completion(message.content or "", calls)


async def without_kernel(client: ChatModel) -> int:
    """One episode's requests without any kernel."""
    system = {"role": "system", "content": "You work on your own inside a Linux container. " * 6}
    messages: list[Message] = [system, {"role": "user", "content": "Do the task."}]
    for turn in range(1000):
        completion = await client.complete(messages, [BASH], Sampling(), turn)
        if not completion.tool_calls:
            return turn + 1
        call = completion.tool_calls[0]
        function = {"name": call.name, "arguments": call.arguments}
        raw = {"id": call.id, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [raw]})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "ok\n[exit 0]"})
    raise RuntimeError("an episode without an end")


async def crowd(count: int, width: int, one: Callable[[], Awaitable[int]]) -> tuple[float, float]:
    """Wall and CPU seconds (of this process) of ``count`` episodes, ``width`` at a time."""
    gate = asyncio.Semaphore(width)

    async def gated() -> int:
        async with gate:
            return await one()

    wall, cpu = time.perf_counter(), time.process_time()
    turns = await asyncio.gather(*[gated() for _ in range(count)])
    if len(set(turns)) != 1:
        raise RuntimeError(f"episodes of different lengths: {set(turns)}")
    return time.perf_counter() - wall, time.process_time() - cpu


async def measure(options: argparse.Namespace, url: str) -> dict[str, float]:
    bare, client = Bare(url), OpenAIModel(Endpoint(url, "fixed"))
    count, width = options.rollouts, options.concurrency
    for model in (bare, client):  # imports and first connections are nobody's overhead
        await crowd(width, width, lambda model=model: without_kernel(model))  # type: ignore[misc]
    bare_wall, bare_cpu = await crowd(count, width, lambda: without_kernel(bare))
    client_wall, client_cpu = await crowd(count, width, lambda: without_kernel(client))
    files = workspace.read(ROOT / "seed_harnesses" / "general")
    async with WorkerPool(options.sandbox) as pool:

        async def rollout() -> int:
            world = ScriptedWorld()
            limits = Limits(turns=options.turns + 1)
            trajectory = await pool.run(files, "Do it.", client, world, limits, Sampling(), 0)
            if trajectory.end != "answered":
                raise RuntimeError(f"{trajectory.end}: {trajectory.error}")
            return trajectory.turns

        await rollout()
        before = sandbox_cpu_s(pool)
        wall, cpu = await crowd(count, width, rollout)
        sandbox = sandbox_cpu_s(pool) - before
    await client.close()
    ideal = count * options.turns * options.latency / width
    per = 1000 / count
    return {
        "ideal_s": ideal,
        "bare_s": bare_wall,
        "client_s": client_wall,
        "kernel_s": wall,
        "ratio": wall / ideal,
        "bare_ratio": bare_wall / ideal,
        "bare_cpu_ms": bare_cpu * per,
        "client_cpu_ms": client_cpu * per,
        "kernel_host_cpu_ms": (cpu - client_cpu) * per,
        "kernel_sandbox_cpu_ms": sandbox * per,
        "kernel_cpu_ms": (cpu - client_cpu + sandbox) * per,
    }


def sandbox_cpu_s(pool: WorkerPool) -> float:
    """CPU of the pool's processes, the ended rollouts among them."""
    roots = pool.pids()
    return sum(total.cpu_s for total in usage.by_root(roots).values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rollouts", type=int, default=400)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds per reply")
    parser.add_argument("--sandbox", default="bwrap")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.latency, options.turns))
        return 0
    command = [sys.executable, __file__, "--serve", "--latency", str(options.latency)]
    command += ["--turns", str(options.turns)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
            result = asyncio.run(measure(options, url))
        finally:
            server.kill()
    report(result, as_json=options.json)
    return 0 if result["ratio"] <= TARGET_RATIO else 1


def report(result: dict[str, float], as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: round(value, 3) for name, value in result.items()}))
        return
    print(f"ideal wall time                 {result['ideal_s']:8.2f} s")
    print(f"bare openai client              {result['bare_s']:8.2f} s")
    print(f"the engine's client             {result['client_s']:8.2f} s")
    print(f"kernel and client               {result['kernel_s']:8.2f} s")
    print(f"kernel / ideal                  {result['ratio']:8.3f}    (target {TARGET_RATIO})")
    print(f"bare client / ideal             {result['bare_ratio']:8.3f}")
    print(f"CPU per rollout: bare openai    {result['bare_cpu_ms']:8.2f} ms")
    print(f"                 our client     {result['client_cpu_ms']:8.2f} ms")
    print(
        f"                 kernel adds    {result['kernel_cpu_ms']:8.2f} ms (aim {TARGET_CPU_MS})"
    )
    print(f"                   in the host  {result['kernel_host_cpu_ms']:8.2f} ms")
    print(f"                   in sandbox   {result['kernel_sandbox_cpu_ms']:8.2f} ms")


if __name__ == "__main__":
    sys.exit(main())
