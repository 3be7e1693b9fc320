"""World, verifier, metrics, objective and registry of the smart-home domain."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from smart_home_data import REAL, home, needs_real, row

from engine.domains import Task, Verdict
from engine.domains.registry import domain
from engine.domains.smart_home import DOMAIN
from engine.domains.smart_home.homes import parse_home
from engine.domains.smart_home.row import make_task, parse_row
from engine.domains.smart_home.scoring import MAX_ANSWER
from engine.domains.smart_home.world import TOOLS
from engine.errors import ConfigError

SECRET = "kitchen.fan.set_speed(marker)"
DIM = "ding_room.light.set_brightness(20)"


def task(gold: str = f"''' {SECRET}'''", kind: str = "normal", key: str = "t") -> Task:
    return make_task(parse_row(row(key, gold, kind), "here"), parse_home(home(), "here"), home())


def call(world: Any, name: str, **arguments: Any) -> str:
    return asyncio.run(world.call(name, arguments))


def test_the_index_shows_rooms_and_devices_and_nothing_more():
    world = DOMAIN.world(task())
    assert world.public == task().public
    assert world.public["home"] == {
        "ding_room": ["light", "curtain"],
        "kitchen": ["fan", "light"],
        "house": ["vacuum_robot"],
    }


def test_inspect_home_gives_state_of_a_room_or_of_all():
    world = DOMAIN.world(task())
    kitchen = {
        "fan": {"state": "off", "speed": "low"},
        "light": {"state": "off", "color": [1, 2, 3]},
    }
    assert json.loads(call(world, "inspect_home", room="kitchen")) == kitchen
    everything = json.loads(call(world, "inspect_home"))
    assert list(everything) == ["ding_room", "kitchen", "house"]
    assert everything["house"]["vacuum_robot"]["mode"] == "auto"


def test_list_methods_gives_signatures_of_a_room_or_of_all():
    world = DOMAIN.world(task())
    assert call(world, "list_methods", room="Ding Room").splitlines() == [
        "ding_room.light.turn_on()",
        "ding_room.light.set_brightness(brightness: int 0..100)",
        "ding_room.curtain.set_degree(degree: int 0..100)",
    ]
    assert call(world, "list_methods", room="house").startswith("vacuum_robot.set_mode(")
    assert len(call(world, "list_methods").splitlines()) == 7


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("inspect_home", {"room": "attic"}),
        ("list_methods", {"room": 3}),
        ("list_methods", {"room": ["kitchen"]}),
        ("open_door", {}),
        ("final_answer", {}),
        ("final_answer", {"commands": ["{a}"]}),
    ],
)
def test_a_bad_call_says_so_and_records_nothing(name, arguments):
    world = DOMAIN.world(task())
    assert call(world, name, **arguments).startswith("error:")
    assert world.answer is None


def test_an_unknown_room_is_answered_with_the_rooms():
    assert "ding_room, kitchen, house" in call(DOMAIN.world(task()), "inspect_home", room="attic")


def test_the_first_answer_counts():
    world = DOMAIN.world(task())
    assert call(world, "final_answer", commands="{a}") == "recorded"
    assert call(world, "final_answer", commands="{b}").startswith("already recorded")
    assert world.answer == "{a}"


def test_there_is_no_shell():
    assert asyncio.run(DOMAIN.world(task()).exec("ls")).return_code == 127


def test_no_tool_ever_shows_the_reference():
    world = DOMAIN.world(task())
    shown = [json.dumps(world.public), json.dumps(TOOLS)]
    for room in (None, *world.public["home"], "attic"):
        arguments = {} if room is None else {"room": room}
        shown += [call(world, name, **arguments) for name in ("inspect_home", "list_methods")]
    shown += [call(world, "final_answer", commands="{x}"), call(world, "other")]
    assert not any("marker" in text for text in shown)
    assert not any("marker" in repr(value) for value in vars(world).values())


def test_tools_are_valid_schemas_and_refuse_what_they_do_not_know():
    for tool in TOOLS:
        jsonschema.Draft202012Validator.check_schema(tool["function"]["parameters"])
    final = TOOLS[-1]["function"]["parameters"]
    jsonschema.validate({"commands": "{}"}, final)
    for wrong in ({}, {"commands": 1}, {"commands": "{}", "more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, final)
    rules = DOMAIN.world(task()).rules
    assert (rules.tools, rules.calls_per_turn, rules.text_turns) == (TOOLS, 1, False)


def test_tasks_are_plain_data():
    made = task(f"'''{DIM},error_input,{SECRET},'''", "multi3_mix")
    assert json.loads(json.dumps(made.private)) == made.private
    assert made.strata == {"subset": "MM", "operations": "3-5"}
    assert made.private["type"] == "MM" and SECRET in made.private["gold"]


@pytest.mark.parametrize(
    ("n", "stratum"), [(1, "1"), (2, "2"), (3, "3-5"), (5, "3-5"), (6, "6-10")]
)
def test_strata_by_number_of_operations(n, stratum):
    kind = "normal" if n == 1 else f"multi{n}_normal"
    assert task("'''" + f"{DIM}," * n + "'''", kind).strata["operations"] == stratum


def test_a_verdict_is_right_or_wrong():
    right = DOMAIN.verify(task(), f"{{ {SECRET} }}")
    assert (right.score, right.accepted, right.failure) == (1.0, True, "")
    for answer, failure in ((None, "no_answer"), ({"x": 1}, "no_answer"), ("{a}", "wrong_command")):
        wrong = DOMAIN.verify(task(), answer)
        assert (wrong.score, wrong.accepted, wrong.failure) == (0.0, False, failure)
        assert wrong.counts["n"] == 1 and wrong.counts["gold"] == 1


def test_an_answer_longer_than_is_read_has_no_commands():
    read = f"{{{SECRET}}}" + "x" * (MAX_ANSWER - len(SECRET) - 2)
    assert DOMAIN.verify(task(), read).accepted
    verdict = DOMAIN.verify(task(), read + "x")
    assert (verdict.score, verdict.failure) == (0.0, "no_commands")
    assert (verdict.counts["pred"], verdict.counts["gold"]) == (0, 1)


def judged(tasks: Any, answer: Any) -> list[tuple[Task, Verdict]]:
    return [(each, DOMAIN.verify(each, answer(each))) for each in tasks]


def test_metrics_by_hand():
    valid, invalid = task(key="a"), task("'''error_input'''", "unexist_device", "b")
    found = DOMAIN.metrics(
        [
            (valid, DOMAIN.verify(valid, f"{{{SECRET}}}")),
            (invalid, DOMAIN.verify(invalid, f"{{{DIM}}}")),
        ]
    )
    assert found == {
        "score": 0.5, "success": 0.5, "f1": 0.5, "op_f1": pytest.approx(2 / 3),
        "success_VS": 1.0, "success_IS": 0.0,
    }  # fmt: skip


def test_metrics_of_nothing_are_zero():
    assert set(DOMAIN.metrics([]).values()) == {0.0}


def valid_against(metrics: dict[str, float], incumbent: dict[str, float]) -> bool:
    """The gate as an objective states it."""
    mine, theirs = DOMAIN.objective(metrics), DOMAIN.objective(incumbent)
    return all(
        value >= theirs.gates[name] - mine.tolerance[name]
        and value > mine.floors.get(name, float("-inf"))
        for name, value in mine.gates.items()
    )


def test_rejecting_everything_is_never_valid_even_against_nothing():
    tasks = DOMAIN.generate("gate", 1, {"validation": 120}).validation
    rejecting = DOMAIN.metrics(judged(tasks, lambda _: "{error_input}"))
    silent = DOMAIN.metrics(judged(tasks, lambda _: None))
    assert rejecting["success"] > silent["success"] == 0
    assert not valid_against(rejecting, silent)
    assert not valid_against(silent, silent)


@needs_real
def test_rejecting_everything_is_never_valid_on_real_rows():
    tasks = DOMAIN.load(REAL, 1, {"validation": 150}).validation
    rejecting = DOMAIN.metrics(judged(tasks, lambda _: "{error_input}"))
    assert rejecting["success"] > 0.3 and rejecting["op_f1"] == 0
    assert not valid_against(rejecting, rejecting)


def test_more_right_answers_are_valid_and_score_more():
    tasks = DOMAIN.generate("gate", 1, {"validation": 120}).validation
    gold = {each.id: "{" + each.private["gold"].replace("'''", "") + "}" for each in tasks}
    half = {each.id for each in tasks[:60]}
    some = DOMAIN.metrics(judged(tasks, lambda t: gold[t.id] if t.id in half else None))
    all_right = DOMAIN.metrics(judged(tasks, lambda t: gold[t.id]))
    assert all_right["score"] == 1.0 and some["score"] == 0.5
    assert valid_against(all_right, some) and not valid_against(some, all_right)
    assert DOMAIN.objective(all_right).scalar > DOMAIN.objective(some).scalar


def test_the_registry_knows_names_and_paths():
    assert domain("smart_home") is DOMAIN
    assert domain("engine.domains.smart_home:DOMAIN") is DOMAIN


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smarthome", "known: .*smart_home"),
        ("no_such_module.here:DOMAIN", "No module named 'no_such_module'"),
        ("engine.domains.smart_home:NOTHING", "has no attribute 'NOTHING'"),
        ("engine.domains.split:SPLITS", "is no domain"),
    ],
)
def test_the_registry_says_what_is_wrong(name, message):
    with pytest.raises(ConfigError, match=message):
        domain(name)


def test_practice_has_the_world_and_no_reference_answer():
    task = DOMAIN.generate("salt", 0, {"train": 1}).train[0]
    practice = DOMAIN.practice(task, "Turn on the light in the kitchen.")
    assert practice.public == task.public and practice.instruction.startswith("Turn on")
    assert task.private["gold"] not in json.dumps(dict(practice.private))
    assert DOMAIN.world(practice).public == task.public


def test_the_contract_names_the_agent_and_its_methods():
    assert DOMAIN.turn_limit == 20
    assert DOMAIN.entry_points["build_agent"] == ("settings", "client")
    assert DOMAIN.entry_points["Agent.initialize"] == ("instruction", "public_home", "tools")
    assert {"Agent.step", "Agent.receive_tool_result"} <= set(DOMAIN.entry_points)
    assert "build_agent(settings, client)" in DOMAIN.direction
