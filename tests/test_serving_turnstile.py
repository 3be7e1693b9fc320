"""Who may ask a server that holds one checkpoint at a time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.serving.turnstile import Turnstile


@given(st.lists(st.sampled_from("abc"), max_size=12), st.integers(1, 4))
def test_one_key_at_a_time_never_too_many_and_nobody_is_forgotten(
    keys: list[str], width: int
) -> None:
    turnstile, inside, done, switches = Turnstile(width), [], [], []

    async def visit(key: str) -> None:
        async def switch() -> None:
            assert inside == []
            await asyncio.sleep(0)
            switches.append(key)

        async with turnstile.enter(key, switch):
            inside.append(key)
            assert set(inside) == {key}
            assert len(inside) <= width
            await asyncio.sleep(0)
            inside.remove(key)
            done.append(key)

    async def all_of_them() -> None:
        async with asyncio.timeout(5):
            await asyncio.gather(*(visit(key) for key in keys))

    asyncio.run(all_of_them())
    assert sorted(done) == sorted(keys)
    assert len(switches) == len(set(keys)), "those that wait for the current key go first"


def test_a_failed_switch_and_a_cancelled_wait_leave_the_way_free() -> None:
    async def scene() -> str:
        turnstile = Turnstile(1)
        release = asyncio.Event()

        async def good() -> None:
            return None

        async def bad() -> None:
            raise OSError("no answer")

        async def hold() -> None:
            async with turnstile.enter("a", good):
                await release.wait()

        holder = asyncio.create_task(hold())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(turnstile.enter("b", good).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        release.set()
        await holder
        with pytest.raises(OSError, match="no answer"):
            async with turnstile.enter("b", bad):
                pass
        async with asyncio.timeout(5), turnstile.enter("b", good):
            return "in"

    assert asyncio.run(scene()) == "in"
