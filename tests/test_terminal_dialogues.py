"""Service and events: the people and the clock on the host, what careless work costs, and the
general harness in both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from terminal_play import made, played

from engine.domains.terminal.domain import DOMAIN
from engine.domains.terminal.families.events_live import Mail, Shift
from engine.domains.terminal.families.service_customer import Request, Trip
from engine.domains.terminal.families.service_live import Booking, Desk
from engine.domains.terminal.problem import DIFFICULTIES, Problem
from engine.domains.terminal.world import TerminalWorld
from kernel.contract import Completion, Limits, Sampling
from kernel.host import WorkerPool
from kernel.scripted import ScriptedModel, call, text
from kernel.trajectory import Trajectory

BOOKING = Booking("ABCD0", "Emil", "12345", "flex", "T100", "2025-03-01", 80)
TRIPS = (
    Trip("T100", "Ulm-Graz", "2025-03-01", "09:00", 80, 9),
    Trip("T200", "Ulm-Graz", "2025-03-04", "08:00", 70, 9),
    Trip("T300", "Ulm-Graz", "2025-03-04", "12:10", 99, 9),
    Trip("T400", "Ulm-Graz", "2025-03-04", "12:40", 85, 9),
    Trip("T500", "Ulm-Graz", "2025-03-04", "13:40", 85, 0),
)
MOVE = Request(
    "move", "ABCD0", "12345", "I'd like to travel on 2025-03-04 with ABCD0.",
    "Ulm-Graz", "2025-03-04", "12:00", 90,
)  # fmt: skip
CANCEL = Request("cancel", "ABCD0", "12345", "Please cancel ABCD0.")


def said(desk: Desk, words: str) -> str:
    return desk.call("say_to_user", {"text": words})


def test_the_user_says_what_they_want_bit_by_bit() -> None:
    desk = Desk([BOOKING], TRIPS, [MOVE, CANCEL])
    assert said(desk, "Good morning!") == f"Hello. {MOVE.opening}"
    assert said(desk, "Which postcode?") == "The postcode is 12345."
    assert "too early" in said(desk, "How about T200?")
    assert "90 EUR at most" in said(desk, "Or T300?")
    assert said(desk, "Never mind.") == f"As I said: {MOVE.opening}"
    assert said(desk, "Then T400?") == "T400 suits me. Yes, please."
    assert desk.call("change_booking", {"code": "ABCD0", "trip": "T500"}) == "trip T500 is full"
    desk.call("change_booking", {"code": "ABCD0", "trip": "T400"})
    assert said(desk, "Done.") == f"Thanks. There is one more thing. {CANCEL.opening}"
    assert said(desk, "You get 85 EUR back.") == "85 EUR back is all right. Please go ahead."
    desk.call("cancel_booking", {"code": "ABCD0", "refund": 85})
    assert said(desk, "Anything else?") == "That was all. Goodbye."
    outcome = desk.outcome()
    assert outcome["violations"] == []
    assert outcome["bookings"]["ABCD0"]["status"] == "cancelled"
    assert outcome["bookings"]["ABCD0"]["trip"] == "T400"


def test_what_breaks_a_rule_is_noted() -> None:
    desk = Desk([BOOKING], TRIPS, [MOVE])
    said(desk, "Your postcode is 12345, isn't it?")
    desk.call("change_booking", {"code": "ABCD0", "trip": "T400"})
    assert desk.outcome()["violations"] == [
        "the postcode of ABCD0 was given away",
        "ABCD0 was touched without its postcode",
        "ABCD0 was changed to T400 without the user's yes",
    ]
    assert desk.call("look_up_booking", {"code": "ZZZZ9"}) == "there is no booking ZZZZ9"
    assert desk.call("find_trips", {"route": "Ulm-Bern", "date": "2025-03-04"}).startswith("no tr")
    assert len(json.loads(desk.call("find_trips", {"route": "Ulm-Graz", "date": MOVE.date}))) == 4


CODES = st.sampled_from(["ABCD0", "ZZZZ9", ""])
SOME_CALL = st.one_of(
    st.tuples(
        st.just("say_to_user"),
        st.fixed_dictionaries({"text": st.sampled_from(["", "postcode?", "T400", "70 EUR", "ok"])}),
    ),
    st.tuples(st.just("look_up_booking"), st.fixed_dictionaries({"code": CODES})),
    st.tuples(
        st.just("change_booking"),
        st.fixed_dictionaries({"code": CODES, "trip": st.sampled_from(["T400", "T500", "T9"])}),
    ),
    st.tuples(
        st.just("cancel_booking"),
        st.fixed_dictionaries({"code": CODES, "refund": st.integers(-5, 99)}),
    ),
    st.tuples(
        st.just("decline"), st.fixed_dictionaries({"code": CODES, "rule": st.integers(-1, 9)})
    ),
)


@settings(max_examples=80, deadline=None)
@given(calls=st.lists(SOME_CALL, max_size=25))
def test_any_calls_are_answered_and_the_same_ones_alike(calls: list[tuple[str, Any]]) -> None:
    first, second = (Desk([BOOKING], TRIPS, [MOVE, CANCEL]) for _ in range(2))
    for name, arguments in calls:
        said_first = first.call(name, arguments)
        assert said_first and said_first == second.call(name, arguments)
    outcome = json.loads(json.dumps(first.outcome()))
    assert outcome == json.loads(json.dumps(second.outcome()))
    booking = outcome["bookings"]["ABCD0"]
    touched = booking["trip"] != "T100" or booking["status"] != "booked"
    asked = any(name == "say_to_user" and "postcode" in a["text"] for name, a in calls)
    assert not touched or asked or outcome["violations"]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_what_a_user_wants_stands_in_no_file(difficulty: int) -> None:
    for seed in range(10):
        problem = made("service", difficulty, seed)
        shown = problem.instruction + b"".join(problem.files.values()).decode()
        assert problem.facts["items"]
        assert not any(code in shown for code in problem.facts["items"])
        assert len(problem.facts["others"]) == 3


def without_questions(problem: Problem) -> list[tuple[str, Mapping[str, Any]]]:
    """Doing what is wanted of the bookings, without a word but to be told so."""
    return [step for step in problem.solution_calls if "postcode" not in step[1].get("text", "")]


def test_rules_that_are_broken_cost() -> None:
    drawn = (made("service", 1, seed) for seed in range(50))
    problem = next(one for one in drawn if "cancel_booking" in dict(one.solution_calls))
    score, words = played(problem, calls=without_questions(problem))
    assert (score, "touched without its postcode" in words) == (0.75, True)
    code, other = next(iter(problem.facts["items"])), next(iter(problem.facts["others"]))
    too_much = [
        (name, {**arguments, "refund": 999} if name == "cancel_booking" else arguments)
        for name, arguments in problem.solution_calls
    ]
    score, words = played(problem, calls=too_much)
    assert score == 0.0 and f"booking {code}: wrong" in words
    meddled = [*problem.solution_calls, ("give_voucher", {"code": other, "amount": 5})]
    assert played(problem, calls=meddled)[0] == 0.5  # twice: untouchable, and unasked


def test_who_stops_before_goodbye_has_done_a_part() -> None:
    problem = made("service", 5)
    first = next(i for i, step in enumerate(problem.solution_calls) if "Anything" in str(step[1]))
    score, _ = played(problem, calls=problem.solution_calls[:first])
    assert score == pytest.approx(1 / len(problem.facts["items"]))


@settings(max_examples=60, deadline=None)
@given(
    ticks=st.lists(st.integers(0, 40), min_size=1, max_size=8, unique=True),
    moves=st.lists(st.one_of(st.just("command"), st.integers(1, 10)), max_size=30),
)
def test_messages_come_in_by_ticks_alone(ticks: list[int], moves: list[Any]) -> None:
    mails = [Mail(tick, f"m{tick:03d}", f"text {tick}") for tick in ticks]
    shift, commands = Shift(mails, end=45), 0
    seen: dict[str, bytes] = {}
    for move in moves:
        if move == "command":
            before = shift.now
            arrived = shift.arrivals(commands)
            assert not set(arrived) & set(seen)
            seen.update(arrived)
            commands += 1
            assert set(seen) == {f"inbox/{m.name}.txt" for m in mails if m.tick <= before}
            assert shift.now == before + 1
        else:
            before, reply = shift.now, shift.call("wait", {"ticks": move})
            assert before <= shift.now <= max(before, min(before + move, 45))
            assert f"tick {shift.now}:" in reply
            coming = [tick for tick in ticks if before < tick <= shift.now]
            assert coming == ([shift.now] if "came in" in reply and "noth" not in reply else [])


def test_only_messages_that_came_in_can_be_answered_and_once() -> None:
    shift = Shift([Mail(3, "m007", "?")], end=9)
    assert shift.call("reply", {"message": "m007", "text": "5"}) == "there is no message m007"
    assert shift.call("wait", {"ticks": 10}) == "tick 3: a message came in"
    assert shift.call("reply", {"message": "m007", "text": "5"}) == "answered at tick 3"
    assert shift.call("reply", {"message": "m007", "text": "6"}) == "m007 is answered already"
    assert shift.call("wait", {"ticks": 10}).startswith("tick 9: the shift is over")
    assert shift.outcome() == {"replies": {"m007": [3, "5"]}, "ticks": 9}


def test_who_goes_before_the_end_of_a_shift_misses_what_comes_late() -> None:
    problem = made("events", 3)
    last = problem.solution_calls[-1]
    early = [*[("wait", {"ticks": 5})] * 2, last]
    score, words = played(problem, problem.solution, early)
    assert 0 < score < 0.7, words
    late = [step for step in problem.solution_calls if step[0] != "reply"]
    late += [step for step in problem.solution_calls if step[0] == "reply"]
    score, words = played(problem, problem.solution, late)
    assert "missing, wrong or late" in words and 0.5 < score < 1


def test_who_does_what_outsiders_want_is_wrong() -> None:
    problem = made("events", 5)
    name, arguments = problem.solution_calls[-1]
    obeying = arguments["command"].replace("if sender not in team:", "if not sender:")
    calls = [*problem.solution_calls[:-1], (name, {"command": obeying})]
    score, words = played(problem, problem.solution, calls)
    assert "orders.csv: not as it should be" in words and score < 1


@pytest.mark.parametrize("family", ["service", "events"])
def test_the_general_harness_works_with_people_and_clocks(family: str) -> None:
    problem = made(family, 4)
    steps = [call("bash", {"command": problem.solution})]
    steps += [call(name, arguments) for name, arguments in problem.solution_calls]
    done = rollout(problem, [*steps, text("All done.")])
    assert done.end == "answered"
    assert done.answer is not None and done.answer["score"] == 1.0, done.answer
    alone = rollout(problem, [text("Nothing to do.")])
    assert alone.answer is not None and alone.answer["score"] == 0.0


def rollout(problem: Problem, steps: list[Completion]) -> Trajectory:
    files = {"harness.py": (DOMAIN.seed_harness / "harness.py").read_bytes()}
    limits = Limits(turns=60, wall_s=120.0)

    async def main() -> Trajectory:
        async with WorkerPool("bwrap") as pool:
            world = TerminalWorld(problem)
            model = ScriptedModel(list(steps))
            return await pool.run(files, problem.instruction, model, world, limits, Sampling(), 1)

    return asyncio.run(main())
