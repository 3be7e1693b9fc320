"""The meter: prices, caps of round, role and session, and counts that outlive the process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_cases import MODEL, meter

from engine.errors import BudgetSpent, ConfigError
from engine.llm.ledger import entries
from engine.llm.meter import Meter
from engine.llm.scripted import Answer, Request, ScriptedEndpoint
from engine.llm.usage import Caps, Price, Usage

COUNT = st.integers(0, 10**6)
USAGES = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT.map(float), COUNT.map(float))


class Ticking:
    """A clock that goes on by a second at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_price_counts_cached_tokens_apart() -> None:
    # 600 · 3 + 400 · 0.3 + 100 · 15 = 1800 + 120 + 1500 millionths
    assert Price(3.0, 15.0, 0.3).usd(1000, 400, 100) == pytest.approx(0.00342)
    assert Price(3.0, 15.0).usd(1000, 400, 100) == pytest.approx(0.0045)


@given(USAGES, USAGES, USAGES)
def test_usage_adds_up_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Usage() == a


def test_a_call_is_counted_with_its_seconds_and_price(tmp_path: Path) -> None:
    counted = meter(tmp_path, clock=Ticking())
    account = counted.account("curator", "r003")
    used = account.charge(account.admit(MODEL), 1000, 400, 50)
    assert used == Usage(1, 1000, 400, 50, 1.0, pytest.approx(0.0018))
    assert counted.spent() == counted.spent("curator") == account.usage == used
    assert counted.spent("editors") == Usage()


def test_a_call_in_flight_counts_as_a_call(tmp_path: Path) -> None:
    counted = meter(tmp_path, caps=Caps(calls=1))
    account = counted.account("curator")
    ticket = account.admit(MODEL)
    assert counted.spent() == Usage(calls=1, unanswered=1)
    with pytest.raises(BudgetSpent):
        account.admit(MODEL)
    account.charge(ticket, 10, 0, 1)
    assert counted.spent().unanswered == 0


def test_each_cap_names_whose_it_is_and_how_to_go_on(tmp_path: Path) -> None:
    counted = meter(tmp_path, caps=Caps(calls=4), roles={"curator": Caps(tokens=30)})
    curator = counted.account("curator")
    curator.charge(curator.admit(MODEL), 20, 0, 10)
    with pytest.raises(
        BudgetSpent, match=r"curator again: the role's .*30 of 30 tokens.*curator\.caps\.t"
    ):
        counted.account("curator", "again").admit(MODEL)
    editor = counted.account("editors", "k1", Caps(calls=2))
    editor.fail(editor.admit(MODEL))
    editor.fail(editor.admit(MODEL))
    with pytest.raises(BudgetSpent, match=r"editors k1: the session's .*2 of 2 calls") as spent:
        editor.admit(MODEL)
    assert (spent.value.whose, spent.value.cap) == ("session", "calls")
    other = counted.account("editors", "k2", Caps(calls=2))
    other.fail(other.admit(MODEL))
    with pytest.raises(BudgetSpent, match=r"round's .*4 of 4 calls.*raise llm\.caps\.calls"):
        other.admit(MODEL)


def test_a_cap_in_money_needs_a_price(tmp_path: Path) -> None:
    account = meter(tmp_path, caps=Caps(usd=1.0)).account("curator")
    account.admit(MODEL)
    with pytest.raises(ConfigError, match=r"llm\.prices\.unknown"):
        account.admit("unknown")
    free = Meter(tmp_path / "other.jsonl", 3, {}).account("curator")
    assert free.charge(free.admit("unknown"), 10, 0, 1).unpriced == 1


def test_a_resumed_round_goes_on_and_another_starts_from_zero(tmp_path: Path) -> None:
    for _ in range(2):
        counted = meter(tmp_path, caps=Caps(calls=2))
        account = counted.account("editors", "k1")
        account.charge(account.admit(MODEL), 5, 0, 5)
        counted.close()
    resumed = meter(tmp_path, caps=Caps(calls=2))
    assert resumed.spent("editors").tokens == 20
    with pytest.raises(BudgetSpent):
        resumed.account("curator").admit(MODEL)
    assert Meter(tmp_path / "costs.jsonl", 4, {}).spent() == Usage()


def test_what_a_killed_session_spent_counts_for_its_next_try_alone(tmp_path: Path) -> None:
    killed = meter(tmp_path).account("editors", "k1", Caps(calls=3, tokens=25), work="a")
    killed.charge(killed.admit(MODEL), 5, 0, 5)
    killed.admit(MODEL)

    counted = meter(tmp_path)
    again = counted.account("editors", "k1", Caps(calls=3), work="a")
    assert (again.before.calls, again.before.unanswered, again.usage.calls) == (2, 1, 0)
    again.charge(again.admit(MODEL), 5, 0, 5)
    assert again.usage.calls == 1
    with pytest.raises(BudgetSpent, match=r"session's budget .*3 of 3 calls"):
        again.admit(MODEL)
    for session, work in (("k2", "a"), ("k1", "b"), ("k1", "")):
        counted.account("editors", session, Caps(calls=1), work=work).admit(MODEL)
    tokens = meter(tmp_path).account("editors", "k1", Caps(tokens=20), work="a")
    with pytest.raises(BudgetSpent, match="20 of 20 tokens"):
        tokens.admit(MODEL)


def test_threads_count_exactly(tmp_path: Path) -> None:
    counted = meter(tmp_path, caps=Caps(calls=100))

    def spend() -> None:
        account = counted.account("editors")
        try:
            while True:
                account.charge(account.admit(MODEL), 2, 1, 1)
        except BudgetSpent:
            return

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.spent().calls == 100
    assert sum((e.usage for e in entries(tmp_path / "costs.jsonl")), Usage()).tokens == 300


@pytest.mark.parametrize("torn", ['{"schema": 1, "call": "x", "ro', '{"call": "x", "usage": {"ca'])
def test_a_torn_last_line_is_left_out(torn: str, tmp_path: Path) -> None:
    first = meter(tmp_path).account("editors")
    first.charge(first.admit(MODEL), 5, 0, 5)
    path = tmp_path / "costs.jsonl"
    path.write_text(path.read_text() + torn)
    resumed = meter(tmp_path)
    assert resumed.spent().calls == 1
    more = resumed.account("editors")
    more.charge(more.admit(MODEL), 5, 0, 5)
    assert meter(tmp_path).spent() == resumed.spent()
    assert resumed.spent().tokens == 20


def test_a_file_of_another_schema_is_named(tmp_path: Path) -> None:
    (tmp_path / "costs.jsonl").write_text('{"schema": 9, "call": "x"}\n')
    with pytest.raises(ConfigError, match=r"costs\.jsonl: costs of schema 9"):
        meter(tmp_path)


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from llm_cases import MODEL, chat_request, client, endpoint, meter
from engine.llm.gateway import Gateway

async def session(gateway, folder, name):
    async with gateway.open(name, "editors", None, folder / name) as door, client(door) as http:
        while True:
            reply = await http.post("/v1/chat/completions", json=chat_request(stream=True))
            await reply.read()
            print("reply", flush=True)

async def main(folder):
    async with Gateway(endpoint(sys.argv[1]), meter(folder), folder / "sockets") as gateway:
        await asyncio.gather(*(session(gateway, folder, f"k{n}") for n in range(4)))

asyncio.run(main(Path(sys.argv[2])))
"""


@pytest.mark.parametrize("replies", [1, 9, 23])
def test_counts_are_exact_after_a_kill(replies: int, tmp_path: Path) -> None:
    """What clients had read is counted in full; no call that reached the endpoint is missing."""

    def script(request: Request) -> Answer:
        return Answer("x" * 60, usage=(100, 0, 10), delay_s=0.01 * (request.number % 3))

    with ScriptedEndpoint(script) as server:
        command = [
            sys.executable,
            "-c",
            KILLED,
            server.url,
            str(tmp_path),
            str(Path(__file__).parent),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(replies):
                assert process.stdout.readline() == "reply\n"
            process.send_signal(signal.SIGKILL)
            read = replies + len(process.stdout.readlines())
        sent = len(server.requests)
    used = sum((e.usage for e in entries(tmp_path / "costs.jsonl")), Usage())
    assert sent <= used.calls <= sent + 4  # at most one a session had begun and not yet arrived
    answered = used.calls - used.unanswered
    assert read <= answered <= sent
    assert (used.prompt_tokens, used.completion_tokens) == (100 * answered, 10 * answered)
    assert meter(tmp_path).spent() == used
