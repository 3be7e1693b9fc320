"""`transformers serve`, really started: who answers, how it draws, and that it can't be left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pico
import psutil
import pytest

from engine.errors import ConfigError, ModelError
from engine.params import ServingParams
from engine.serving import server
from engine.serving.embedded import EmbeddedServer
from kernel.contract import (
    Completion,
    ContextLengthExceeded,
    Message,
    ModelUnavailable,
    RequestRefused,
    Sampling,
)

HELLO: list[Message] = [{"role": "user", "content": "turn on the kitchen light"}]
DRAWN = Sampling(1.0, 0.95, 20, 16)
GREEDY = Sampling(max_tokens=16)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("pico")
    return (
        pico.write_checkpoint(folder / "a", 1, tied=False),
        pico.write_checkpoint(folder / "b", 2, tied=False),
    )


@asynccontextmanager
async def running(params: ServingParams, folder: Path) -> AsyncIterator[EmbeddedServer]:
    made = server(params, folder)
    assert isinstance(made, EmbeddedServer)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def test_one_process_serves_every_checkpoint_and_sampling(
    checkpoints: tuple[Path, Path], tmp_path: Path
) -> None:
    one, other = checkpoints

    async def scene() -> None:
        async with running(ServingParams(context=256), tmp_path) as made:
            first, second = made.model(one, "1" * 64), made.model(other, "2" * 64)

            async def ask(model: object, sampling: Sampling, seed: int = 0) -> Completion:
                return await model.complete(HELLO, [], sampling, seed)  # type: ignore[attr-defined]

            # Mixed at once: each swap waits for the requests in flight.
            got = await asyncio.gather(
                *(ask(m, s, i) for i in range(3) for m in (first, second) for s in (GREEDY, DRAWN))
            )
            assert all(c.completion_tokens > 0 and c.prompt_tokens > 10 for c in got)
            again = [await ask(model, GREEDY) for model in (first, second)]
            assert again[0].content != again[1].content, "each answers with its own weights"
            drawn = {(await ask(first, DRAWN, seed)).content for seed in range(4)}
            assert len(drawn) > 1, "sampling after greedy is sampling"
            assert (await ask(first, Sampling(max_tokens=3))).completion_tokens <= 3
            with pytest.raises(ContextLengthExceeded):
                await first.complete([{"role": "user", "content": "light " * 400}], [], GREEDY, 0)
            with pytest.raises(RequestRefused):
                await first.complete([{"role": "wizard", "content": "x"}], [], GREEDY, 0)
        with pytest.raises(ModelUnavailable, match=r"server\.log"):
            await ask(first, GREEDY)

    asyncio.run(scene())


def test_a_checkpoint_s_tokenizer_is_read_once_for_all_its_rollouts(tmp_path: Path) -> None:
    """Reading it takes half a second of a real one; each rollout asks for its model."""
    folder = pico.write_checkpoint(tmp_path / "once", 1, tied=False)
    made = server(ServingParams(context=256), tmp_path)
    long: list[Message] = [{"role": "user", "content": "light " * 400}]

    async def refused() -> None:
        with pytest.raises(ContextLengthExceeded, match=r"\d+ tokens; 240 fit"):
            await made.model(folder, "1" * 64).complete(long, [], GREEDY, 0)

    asyncio.run(refused())
    (folder / "tokenizer.json").unlink()
    asyncio.run(refused())


def test_the_reproducible_mode_repeats_every_bit(
    checkpoints: tuple[Path, Path], tmp_path: Path
) -> None:
    async def pass_over(made: EmbeddedServer) -> list[Completion]:
        models = [made.model(path, "0" * 64) for path in checkpoints]
        work = (
            model.complete([{"role": "user", "content": "light " * n}], [], sampling, seed=n)
            for model in models
            for sampling in (GREEDY, DRAWN)
            for n in (1, 20)
        )
        return list(await asyncio.gather(*work))

    async def scene() -> None:
        async with running(ServingParams(reproducible=True), tmp_path) as made:
            first = await pass_over(made)
            assert await pass_over(made) == first
        texts = [completion.content for completion in first]
        assert texts[2] != texts[0], "seeded sampling is still sampling"

    asyncio.run(scene())


@pytest.fixture
def killed_engine(checkpoints: tuple[Path, Path], tmp_path: Path) -> Iterator[list[psutil.Process]]:
    """The processes of an engine that was killed with its server up."""
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from engine.params import ServingParams\n"
        "from engine.serving import server\n"
        "async def main():\n"
        "    made = server(ServingParams(), Path(sys.argv[1]))\n"
        "    await made.start()\n"
        "    print('up', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"up\n"
        children = psutil.Process(engine.pid).children(recursive=True)
        os.killpg(engine.pid, signal.SIGKILL)
    yield children
    for child in children:
        if child.is_running():
            child.kill()


def test_no_server_outlives_a_killed_engine(killed_engine: list[psutil.Process]) -> None:
    assert len(killed_engine) == 2
    until = time.monotonic() + 30
    while any(_alive(child) for child in killed_engine) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(_alive(child) for child in killed_engine)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_checkpoint_that_cant_be_loaded_is_unavailable(
    checkpoints: tuple[Path, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in checkpoints[0].iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    (broken / "model.safetensors").write_bytes(b"not weights")

    async def scene() -> None:
        async with running(ServingParams(), tmp_path) as made:
            with pytest.raises(ModelUnavailable, match="log"):
                await made.model(broken, "0" * 64).complete(HELLO, [], GREEDY, 0)
            with pytest.raises(ModelError, match=r"no config\.json"):
                made.model(tmp_path / "nowhere", "0" * 64)

    asyncio.run(scene())


def test_what_can_be_known_before_the_start_is_said_then(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"known: .*embedded"):
        server(ServingParams(backend="embeded"), tmp_path)
    with pytest.raises(ConfigError, match="unknown key 'paralel'"):
        server(ServingParams(options={"paralel": 3}), tmp_path)
    dotted = server(ServingParams(backend="engine.serving.embedded:EmbeddedServer"), tmp_path)
    assert dotted.parallel > dotted.__class__(ServingParams(reproducible=True), tmp_path).parallel


def test_an_external_endpoint_serves_one_model_unless_its_name_says_which(tmp_path: Path) -> None:
    one = server(ServingParams(backend="external", base_url="http://x", model="gpt"), tmp_path)
    one.model(tmp_path, "1" * 64)
    one.model(tmp_path, "1" * 64)
    with pytest.raises(ModelError, match=r"digest12"):
        one.model(tmp_path, "2" * 64)
    many = ServingParams(backend="external", base_url="http://x", model="m-{digest12}")
    for digest in ("1" * 64, "2" * 64):
        server(many, tmp_path).model(tmp_path, digest)
    with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
        server(many.model_copy(update={"api_key_env": "NO_SUCH_KEY"}), tmp_path)
